package quantize

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/core/infer/score"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/quant/calibrated"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/fsx"
)

// Options configures Rewrite.
type Options struct {
	Recipe quant.Recipe
	Method Method // if empty, Nearest
	// Imatrix is a file with an importance matrix in a format of llama.cpp, or a
	// text to measure one on; may be empty.
	Imatrix string
	// Calibration is a text for GPTQ, and for an importance matrix if Imatrix is
	// empty.
	Calibration string
	// Separator separates the documents of a text. If empty, a text is one
	// document.
	Separator string
	// Windows is the maximum number of windows of 512 tokens read from a text; if
	// 0, 64.
	Windows int
	// Keep is a file to write the importance matrix to, in the older format for
	// .dat and .imatrix; may be empty.
	Keep string
	// Threads is the number of threads; if 0, all CPUs.
	Threads int
	// Split divides the output into pieces; the zero value writes one file.
	Split Split
}

const (
	defaultWindows = 64
	// maxText is the size limit of a text or an importance matrix, in bytes.
	maxText = 256 << 20
)

func checkTextSize(path string, n int64) error {
	if n > maxText {
		return fmt.Errorf("%s is too large: got %d bytes, the limit is %d", path, n, maxText)
	}
	return nil
}

// Check refuses inconsistent options.
func (o Options) Check() error {
	how := Calibration{Method: o.Method, Windows: o.Windows}
	for _, f := range [...]struct {
		path string
		to   **export.GraphFile
	}{{o.Imatrix, &how.Imatrix}, {o.Calibration, &how.Text}} {
		if f.path != "" {
			*f.to = &export.GraphFile{Path: f.path}
		}
	}
	if err := how.Check(); err != nil {
		return err
	}
	if o.Keep != "" && o.Imatrix == "" && o.Calibration == "" {
		return errors.New("no importance matrix to keep: an imatrix or a calibration text is required")
	}
	return nil
}

// rewrite converts the GGUF file at in and passes the result to write.
func (o Options) rewrite(ctx context.Context, in string, write func([]gguf.KV, []gguf.Source) error) (notes []string, err error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	how, err := o.read()
	if err != nil {
		return nil, err
	}
	f, err := gguf.Open(in)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	to, done, err := learn(ctx, in, how, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, done()) }()
	to.Recipe = o.Recipe
	return rewriteTo(ctx, f, to, write)
}

// read reads the calibration files.
func (o Options) read() (how Calibration, err error) {
	how = Calibration{Method: o.Method, Separator: o.Separator, Windows: o.Windows}
	for _, f := range [...]struct {
		path string
		to   **export.GraphFile
	}{{o.Imatrix, &how.Imatrix}, {o.Calibration, &how.Text}} {
		if f.path == "" {
			continue
		}
		data, err := fsx.ReadFile(f.path, maxText)
		if err != nil {
			return how, err
		}
		*f.to = &export.GraphFile{Path: f.path, Data: data}
	}
	return how, nil
}

// learn measures the model at path as how requires. It uses only the Threads and
// Keep fields of opt. The recipe of the result is not set; done closes the model.
func learn(ctx context.Context, path string, how Calibration, opt Options) (to ConvertOptions, done func() error, err error) {
	l := &learner{Calibration: how, path: path, threads: opt.Threads, keep: opt.Keep}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	to = ConvertOptions{Threads: opt.Threads, Scale: how.Method == AWQ}
	if to.Importance, err = l.importance(ctx); err != nil {
		return to, nil, err
	}
	if how.Method == GPTQ {
		h, err := l.hessians()
		if err != nil {
			return to, nil, err
		}
		to.Hessian = h.Of
	}
	return to, l.close, nil
}

// learner measures a model on texts; it loads the model on first use.
type learner struct {
	Calibration
	path    string
	threads int
	keep    string
	model   *infer.Model
	tok     *tokenizer.Tokenizer
}

func (l *learner) close() error {
	if l.model == nil {
		return nil
	}
	return l.model.Close()
}

// load loads the model once.
func (l *learner) load() (err error) {
	if l.model != nil {
		return nil
	}
	if l.model, err = infer.Load(l.path, infer.Options{Threads: l.threads}); err != nil {
		return err
	}
	l.tok, err = tokenizer.FromGGUF(l.model.File())
	return err
}

func (l *learner) reading(name string) score.Reading {
	limit := l.Windows
	if limit == 0 {
		limit = defaultWindows
	}
	return score.Reading{Limit: limit, Separator: l.Separator, Name: filepath.Base(name)}
}

// importance reads or measures the importance matrix; it is nil if none is needed.
func (l *learner) importance(ctx context.Context) (m *calibrated.Imatrix, err error) {
	from := l.Imatrix
	if from == nil {
		if from = l.Text; from == nil || l.Method == GPTQ && l.keep == "" {
			return nil, nil
		}
	}
	if IsText(from.Data) {
		if err := l.load(); err != nil {
			return nil, err
		}
		if m, err = score.Importance(ctx, l.model, l.tok, string(from.Data), l.reading(from.Path)); err != nil {
			return nil, fmt.Errorf("%s: %w", from.Path, err)
		}
	} else if m, err = ReadImatrix(from); err != nil {
		return nil, err
	}
	if l.keep != "" {
		if err := keep(l.keep, m); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (l *learner) hessians() (*score.Hessians, error) {
	if err := l.load(); err != nil {
		return nil, err
	}
	var names []string
	for _, t := range l.model.File().Tensors {
		if strings.HasPrefix(t.Name, "blk.") && len(t.Dims) == 2 {
			names = append(names, t.Name)
		}
	}
	h, err := score.NewHessians(l.model, l.tok, string(l.Text.Data), names, 0, l.reading(l.Text.Path))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.Text.Path, err)
	}
	return h, nil
}

// keep writes an importance matrix atomically.
func keep(path string, m *calibrated.Imatrix) error {
	d, err := fsx.Create(filepath.Dir(path), 0o755, fsx.Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	tmp, err := d.CreateTemp(".", ".mm-imatrix-", 0o644)
	if err != nil {
		return err
	}
	write := m.Write
	if ext := filepath.Ext(path); ext == ".dat" || ext == ".imatrix" {
		write = m.WritePlain
	}
	if err = errors.Join(write(tmp), tmp.Sync(), tmp.Close()); err == nil {
		err = d.Rename(tmp.Name(), filepath.Base(path))
	}
	if err != nil {
		return errors.Join(err, d.Remove(tmp.Name()))
	}
	return d.SyncDir(".")
}
