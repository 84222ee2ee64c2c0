// Package quantize rewrites a GGUF file in another precision with what is known
// of its inputs: an importance matrix, read from a file or taken down by the
// engine from a text, factors for its columns (AWQ), or the inputs' products
// (GPTQ). [File] does all of it.
package quantize

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"mm-abi.org/mm/assemble/export/gguf"
	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/core/infer/calibrate"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/quant/imatrix"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/fsx"
)

// Method is how weights are rounded.
type Method string

// The methods.
const (
	Nearest Method = "rtn"  // each to the nearest, by importance where it is known
	AWQ     Method = "awq"  // the same, with factors for the columns that matter
	GPTQ    Method = "gptq" // what rounding a column changes is made up for by the next ones
)

// Methods are all of them.
func Methods() []string { return []string{string(Nearest), string(AWQ), string(GPTQ)} }

// Options is how a file is rewritten.
type Options struct {
	Recipe quant.Recipe
	Method Method // "": Nearest
	// Imatrix is a file of an importance matrix, of either form of
	// llama.cpp's, or a text that the model reads to make one. "": none.
	Imatrix string
	// Calibration is a text that the model reads, for GPTQ, and for an
	// importance matrix where Imatrix is "".
	Calibration string
	// Separator cuts texts into documents; "" means that each is one.
	Separator string
	// Windows of up to 512 tokens are read of a text at most; 0 means 64.
	Windows int
	// Keep is a file that the importance matrix is written to: in the older
	// form where its name ends in .dat or .imatrix. "": none.
	Keep string
	// Threads compute; 0 means what the machine has.
	Threads int
}

const (
	defaultWindows = 64
	// mostText is the largest text that is read into memory.
	mostText = 256 << 20
)

// Check refuses options that contradict each other.
func (o Options) Check() error {
	switch o.Method {
	case "", Nearest:
	case AWQ:
		if o.Imatrix == "" && o.Calibration == "" {
			return errors.New("awq needs to know which columns matter: give a text for calibration, or an importance matrix")
		}
	case GPTQ:
		if o.Calibration == "" {
			return errors.New("gptq needs a text for calibration: an importance matrix does not say how columns go together")
		}
	default:
		return fmt.Errorf("unknown method %q: known are %s", o.Method, strings.Join(Methods(), ", "))
	}
	if o.Keep != "" && o.Imatrix == "" && o.Calibration == "" {
		return errors.New("there is no importance matrix to keep: give a text to make one of")
	}
	return nil
}

// File writes what the GGUF file in becomes to w and tells where a tensor got
// another type than the recipe's.
func File(ctx context.Context, in *os.File, opt Options, w io.Writer) (notes []string, err error) {
	if err := opt.Check(); err != nil {
		return nil, err
	}
	info, err := in.Stat()
	if err != nil {
		return nil, err
	}
	l := learner{options: opt, path: in.Name()}
	defer func() { err = errors.Join(err, l.close()) }()
	to := gguf.Options{Recipe: opt.Recipe, Threads: opt.Threads, Scale: opt.Method == AWQ}
	if to.Importance, err = l.importance(ctx); err != nil {
		return nil, err
	}
	if opt.Method == GPTQ {
		h, err := l.hessians()
		if err != nil {
			return nil, err
		}
		to.Hessian = h.Of
	}
	return gguf.Convert(ctx, in, info.Size(), to, w)
}

// learner has the model read texts, once there is one to read.
type learner struct {
	options Options
	path    string
	model   *infer.Model
	tok     *tokenizer.Tokenizer
}

func (l *learner) close() error {
	if l.model == nil {
		return nil
	}
	return l.model.Close()
}

// load loads the model, once.
func (l *learner) load() (err error) {
	if l.model != nil {
		return nil
	}
	if l.model, err = infer.Load(l.path, infer.Options{Threads: l.options.Threads}); err != nil {
		return err
	}
	l.tok, err = tokenizer.FromGGUF(l.model.File())
	return err
}

func (l *learner) reading(name string) calibrate.Options {
	limit := l.options.Windows
	if limit == 0 {
		limit = defaultWindows
	}
	return calibrate.Options{Limit: limit, Separator: l.options.Separator, Name: filepath.Base(name)}
}

// importance reads the importance matrix, or makes it; nil where none is
// wanted.
func (l *learner) importance(ctx context.Context) (*imatrix.Matrix, error) {
	from := l.options.Imatrix
	if from == "" {
		if from = l.options.Calibration; from == "" || l.options.Method == GPTQ && l.options.Keep == "" {
			return nil, nil
		}
	}
	m, err := Imatrix(from)
	if errors.Is(err, errText) {
		text, readErr := fsx.ReadFile(from, mostText)
		if readErr != nil {
			return nil, readErr
		}
		if err := l.load(); err != nil {
			return nil, err
		}
		m, err = calibrate.Importance(ctx, l.model, l.tok, string(text), l.reading(from))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	if l.options.Keep != "" {
		if err := keep(l.options.Keep, m); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (l *learner) hessians() (*calibrate.Hessians, error) {
	text, err := fsx.ReadFile(l.options.Calibration, mostText)
	if err != nil {
		return nil, err
	}
	if err := l.load(); err != nil {
		return nil, err
	}
	var names []string
	for _, t := range l.model.File().Tensors {
		if strings.HasPrefix(t.Name, "blk.") && len(t.Dims) == 2 {
			names = append(names, t.Name)
		}
	}
	return calibrate.NewHessians(l.model, l.tok, string(text), names, 0, l.reading(l.options.Calibration))
}

// errText says that a file is no importance matrix but a text.
var errText = errors.New("a text")

// Imatrix reads an importance matrix. A file of neither form that begins as
// text is [errText].
func Imatrix(path string) (*imatrix.Matrix, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	head := make([]byte, 512)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if head = head[:n]; isText(head) {
		return nil, errText
	}
	return imatrix.Read(f, info.Size())
}

// isText reports whether bytes begin a text: UTF-8, perhaps cut at its end,
// and none of the zeros that counts of the older form have.
func isText(head []byte) bool {
	if strings.HasPrefix(string(head), "GGUF") || strings.IndexByte(string(head), 0) >= 0 {
		return false
	}
	for cut := 0; cut < utf8.UTFMax && cut <= len(head); cut++ {
		if utf8.Valid(head[:len(head)-cut]) {
			return true
		}
	}
	return false
}

// keep writes an importance matrix aside and gives it its name once it is
// whole.
func keep(path string, m *imatrix.Matrix) error {
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
