package study

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/chain"
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
		file      string
		got, want any
	}{{"study", r.s, old}, {r.s.Recipe, r.s.Base, old.Base}} {
		for _, d := range differences("", plain(pair.got), plain(pair.want)) {
			list.Add(diag.StudyEdited, diag.Pos{File: pair.file}, d, "")
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

// differences lists the values of got that differ from want, by JSON pointer.
func differences(path string, got, want any) (all []string) {
	if reflect.DeepEqual(got, want) {
		return nil
	}
	a, isMap := got.(map[string]any)
	b, isAlso := want.(map[string]any)
	if isMap && isAlso {
		keys := maps.Clone(a)
		maps.Copy(keys, b)
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			all = append(all, differences(path+"/"+k, a[k], b[k])...)
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
	return []string{fmt.Sprintf("%s: got %s, the run has %s", path, shown(got), shown(want))}
}

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
