package quantize

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/core/quant/calibrated"
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

// Calibration is what there is to know of a model's inputs, and what for.
type Calibration struct {
	Method Method // "": Nearest
	// Imatrix is an importance matrix, of either form of llama.cpp's, or a text
	// that the model reads to make one. Nil: none.
	Imatrix *export.Given
	// Text is what the model reads for GPTQ, and for an importance matrix where
	// Imatrix is nil.
	Text *export.Given
	// Separator cuts texts into documents; "" means that each is one.
	Separator string
	// Windows of up to 512 tokens are read of a text at most; 0 means 64.
	Windows int
}

// Check refuses what contradicts itself.
func (c Calibration) Check() error {
	if c.Method != "" && !slices.Contains(Methods(), string(c.Method)) {
		return fmt.Errorf("unknown method %q: known are %s", c.Method, strings.Join(Methods(), ", "))
	}
	if c.Windows < 0 {
		return fmt.Errorf("%d windows", c.Windows)
	}
	return c.Method.Needs(c.Imatrix != nil, c.Text != nil)
}

// Needs refuses a method that is not given what it works with: an importance
// matrix, a text.
func (m Method) Needs(imatrix, text bool) error {
	switch {
	case m == AWQ && !imatrix && !text:
		return errors.New("awq needs to know which columns matter: give a text for calibration, or an importance matrix")
	case m == GPTQ && !text:
		return errors.New("gptq needs a text for calibration: an importance matrix does not say how columns go together")
	}
	return nil
}

// String is what tells one calibration from another; "" for none.
func (c Calibration) String() string {
	var s []string
	if c.Method != "" && c.Method != Nearest {
		s = append(s, string(c.Method))
	}
	for _, f := range [...]struct {
		key  string
		file *export.Given
	}{{"imatrix", c.Imatrix}, {"text", c.Text}} {
		if f.file != nil {
			s = append(s, f.key, f.file.Digest)
		}
	}
	if len(s) > 0 && (c.Separator != "" || c.Windows != 0) {
		s = append(s, fmt.Sprintf("%q %d", c.Separator, c.Windows))
	}
	return strings.Join(s, " ")
}

// IsText reports whether data begins a text rather than an importance matrix:
// valid UTF-8, possibly cut within a rune, without the zero bytes that the counts
// of the older format contain.
func IsText(data []byte) bool {
	head := data[:min(len(data), 512)]
	if bytes.HasPrefix(head, []byte("GGUF")) || bytes.IndexByte(head, 0) >= 0 {
		return false
	}
	for cut := 0; cut < utf8.UTFMax && cut <= len(head); cut++ {
		if utf8.Valid(head[:len(head)-cut]) {
			return true
		}
	}
	return false
}

// ReadImatrix reads an importance matrix in either format of llama.cpp.
func ReadImatrix(from *export.Given) (*calibrated.Imatrix, error) {
	m, err := calibrated.ReadImatrix(bytes.NewReader(from.Data), int64(len(from.Data)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from.Path, err)
	}
	return m, nil
}
