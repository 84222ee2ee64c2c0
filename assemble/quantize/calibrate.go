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

// Method is a rounding method.
type Method string

// The methods.
const (
	Nearest Method = "rtn"  // round to nearest, weighted by importance if known
	AWQ     Method = "awq"  // likewise, with scale factors for important columns
	GPTQ    Method = "gptq" // compensate the error of a column in the following ones
)

// Methods returns all methods.
func Methods() []string { return []string{string(Nearest), string(AWQ), string(GPTQ)} }

// Calibration describes the calibration data.
type Calibration struct {
	Method Method // if empty, Nearest
	// Imatrix is an importance matrix in a format of llama.cpp, or a text to
	// measure one on; may be nil.
	Imatrix *export.GraphFile
	// Text is the calibration text for GPTQ, and for an importance matrix if
	// Imatrix is nil.
	Text *export.GraphFile
	// Separator separates the documents of a text. If empty, a text is one
	// document.
	Separator string
	// Windows is the maximum number of windows of 512 tokens read from a text; if
	// 0, 64.
	Windows int
}

// Check refuses inconsistent calibrations.
func (c Calibration) Check() error {
	if c.Method != "" && !slices.Contains(Methods(), string(c.Method)) {
		return fmt.Errorf("unknown method %q, want one of %s", c.Method, strings.Join(Methods(), ", "))
	}
	if c.Windows < 0 {
		return fmt.Errorf("windows is %d, want at least 0", c.Windows)
	}
	return c.Method.Needs(c.Imatrix != nil, c.Text != nil)
}

// Needs checks that a method has the required data: an importance matrix or a text.
func (m Method) Needs(imatrix, text bool) error {
	switch {
	case m == AWQ && !imatrix && !text:
		return errors.New("awq requires a calibration text or an importance matrix")
	case m == GPTQ && !text:
		return errors.New("gptq requires a calibration text: an importance matrix does not contain correlations of columns")
	}
	return nil
}

// String identifies the calibration in cache keys; it is empty for none.
func (c Calibration) String() string {
	var s []string
	if c.Method != "" && c.Method != Nearest {
		s = append(s, string(c.Method))
	}
	for _, f := range [...]struct {
		key  string
		file *export.GraphFile
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
func ReadImatrix(from *export.GraphFile) (*calibrated.Imatrix, error) {
	m, err := calibrated.ReadImatrix(bytes.NewReader(from.Data), int64(len(from.Data)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from.Path, err)
	}
	return m, nil
}
