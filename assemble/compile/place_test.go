package compile_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/assemble/compile"
	"mm-abi.org/mm/runtimes/qnn"
)

// early is an engine during whose compilation another one finishes.
type early struct {
	fake
	out string
}

func (e early) Compile(ctx context.Context, c qnn.Compilation) (qnn.Compiled, error) {
	if err := os.WriteFile(e.out, []byte("another's"), 0o600); err != nil {
		return qnn.Compiled{}, err
	}
	return e.fake.Compile(ctx, c)
}

// Of two compilations into one place the one that comes later is told, and what
// came first stays.
func TestAtOnce(t *testing.T) {
	opt := options(t)
	_, err := compile.Compile(t.Context(), early{fake{soc: 69}, opt.Out}, opt)
	if !errors.Is(err, compile.ErrExists) || !strings.Contains(err.Error(), opt.Out) {
		t.Errorf("%v", err)
	}
	if got, err := os.ReadFile(opt.Out); string(got) != "another's" {
		t.Errorf("%q, %v", got, err)
	}
	if left, err := os.ReadDir(filepath.Dir(opt.Out)); err != nil || len(left) != 2 {
		t.Errorf("%v, %v", left, err)
	}
}

// Outputs that are one file, or the model's, are refused before anything is
// compiled, whatever they are called and whatever may be replaced.
func TestOnePlace(t *testing.T) {
	for name, c := range map[string]struct {
		change func(o *compile.Options, dir string)
		want   string
	}{
		"quantised and wrapper": {func(o *compile.Options, dir string) { o.Quantized = filepath.Join(dir, "out_ctx.onnx") }, "the model around it and the quantized model are the same file"},
		"by another name": {func(o *compile.Options, dir string) {
			o.Quantized = dir + "/../" + filepath.Base(dir) + "/./out_ctx.onnx"
		}, "are the same file"},
		"through a link":              {func(o *compile.Options, dir string) { o.Quantized = filepath.Join(dir, "link", "out_ctx.onnx") }, "are the same file"},
		"quantised and context":       {func(o *compile.Options, _ string) { o.Quantized = o.Out }, "the context and the quantized model"},
		"quantised over the model":    {func(o *compile.Options, _ string) { o.Quantized = o.Model }, "the model and the quantized model"},
		"the wrapper over the model":  {func(o *compile.Options, dir string) { o.Model = filepath.Join(dir, "out_ctx.onnx") }, "the model and the model around it"},
		"a link that leads elsewhere": {func(o *compile.Options, dir string) { o.Quantized = filepath.Join(dir, "to-model.onnx") }, "the model and the quantized model"},
	} {
		opt := options(t)
		dir := filepath.Dir(opt.Out)
		for _, err := range []error{os.Symlink(dir, filepath.Join(dir, "link")), os.Symlink(opt.Model, filepath.Join(dir, "to-model.onnx"))} {
			if err != nil {
				t.Skipf("skipped: no symbolic links here: %v", err)
			}
		}
		opt.Force = true
		c.change(&opt, dir)
		compiled := filepath.Join(dir, "compiled")
		_, err := compile.Compile(t.Context(), early{fake{soc: 69}, compiled}, opt)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if _, err := os.Stat(compiled); err == nil {
			t.Errorf("%s was compiled", name)
		}
	}
}
