package study

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/chain"
	"mm-abi.org/mm/schemas"
)

// same reports every value in which the study and its recipe differ from those of the run.
func (r *runner) same() error {
	old, err := r.at.study()
	if err != nil {
		return err
	}
	r.part = *r.at.start.Parts
	var list diag.List
	for _, pair := range []struct {
		doc       *schemas.Document
		got, want any
	}{{r.s.doc, r.s, old}, {r.s.recipe, r.s.Base, old.Base}} {
		for _, d := range differences("", plain(pair.got), plain(pair.want)) {
			list.Add(diag.StudyEdited, pair.doc.Pos(d.path), fmt.Sprintf("%s: got %s, the run has %s", d.path, shown(d.got), shown(d.want)), "")
		}
	}
	return list.Err()
}

// study parses the study of the first row.
func (s *state) study() (Study, error) {
	if s.run == "" {
		return Study{}, chain.ErrNone
	}
	if s.start.Parts == nil {
		return Study{}, fmt.Errorf("chain row 1: no parts")
	}
	return Parse(s.run, []byte(s.start.Study), func(string) ([]byte, error) { return []byte(s.start.Recipe), nil })
}

// plain converts v to maps, slices and scalars. Settings that do not change the result are
// omitted.
func plain(v any) any {
	text, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var out any
	if json.Unmarshal(text, &out) != nil {
		return nil
	}
	if m, ok := out.(map[string]any); ok {
		delete(m, "threads")
	}
	return out
}

// difference is a value that differs, at a JSON pointer.
type difference struct {
	path      string
	got, want any
}

// differences lists the values of got that differ from want.
func differences(path string, got, want any) (all []difference) {
	if reflect.DeepEqual(got, want) {
		return nil
	}
	a, isMap := got.(map[string]any)
	b, isAlso := want.(map[string]any)
	if isMap && isAlso {
		keys := maps.Clone(a)
		maps.Copy(keys, b)
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			all = append(all, differences(path+"/"+pointer.Replace(k), a[k], b[k])...)
		}
		return all
	}
	x, isList := got.([]any)
	y, isToo := want.([]any)
	if isList && isToo && len(x) == len(y) {
		for i := range x {
			all = append(all, differences(path+"/"+strconv.Itoa(i), x[i], y[i])...)
		}
		return all
	}
	return []difference{{path, got, want}}
}

// pointer escapes a key of a JSON pointer.
var pointer = strings.NewReplacer("~", "~0", "/", "~1")

func shown(v any) string {
	if v == nil {
		return "nothing"
	}
	text, err := json.Marshal(v)
	if err != nil || len(text) > 120 {
		return "another value"
	}
	return string(text)
}
