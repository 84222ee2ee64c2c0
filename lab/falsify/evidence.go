package falsify

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/journal"
)

// maxEvidence bounds a file of evidence in bytes.
const maxEvidence = 4 << 20

// Evidence is figures by their names, as docs/LAB.md lists them.
type Evidence map[string]json.RawMessage

// Read reads the JSON object in the file at path.
func Read(path string) (Evidence, error) {
	data, err := fsx.ReadFile(path, maxEvidence)
	if err != nil {
		return nil, err
	}
	var e Evidence
	if err := journal.Strict(data, &e); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if e == nil {
		return nil, fmt.Errorf("%s: it is no object", path)
	}
	return e, nil
}

// view is the evidence as one check sees it: it notes what is missing and what
// has another type, so that the check need not.
type view struct {
	e       Evidence
	missing []string
	wrong   []string
}

func get[T any](v *view, key string) (out T) {
	raw, ok := v.e[key]
	if !ok || string(raw) == "null" {
		v.missing = append(v.missing, key)
		return out
	}
	if err := journal.Strict(raw, &out); err != nil {
		v.wrong = append(v.wrong, fmt.Sprintf("%s: %v", key, err))
	}
	return out
}

func (v *view) number(key string) float64 {
	n := get[float64](v, key)
	if math.IsNaN(n) || math.IsInf(n, 0) {
		v.wrong = append(v.wrong, key+": no number")
	}
	return n
}

// share is a number from 0 to 1.
func (v *view) share(key string) float64 {
	n := v.number(key)
	if n < 0 || n > 1 {
		v.wrong = append(v.wrong, fmt.Sprintf("%s: %v is no share", key, n))
	}
	return n
}

func (v *view) text(key string) string   { return strings.TrimSpace(get[string](v, key)) }
func (v *view) yes(key string) bool      { return get[bool](v, key) }
func (v *view) list(key string) []string { return get[[]string](v, key) }
