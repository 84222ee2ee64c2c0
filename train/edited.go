package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// continued lists the values of a recipe that may change when a run resumes:
// they apply, or do not change the result. Files of text and of tokenizers are
// compared by their digests.
var continued = []string{"/stop", "/threads", "/data/files", "/tokenizer/file"}

// edited returns a fault for each value of a recipe that differs from the
// recipe of the run to resume, whose optimizer, weights and data depend on it.
func edited(run, recipe any) error {
	var sides [2]any
	for i, v := range []any{recipe, run} {
		data, err := json.Marshal(v)
		if err == nil {
			err = json.Unmarshal(data, &sides[i])
		}
		if err != nil {
			return fmt.Errorf("comparing recipes: %w", err)
		}
	}
	return errors.Join(differences("", sides[0], sides[1])...)
}

// differences returns the faults of got at path.
func differences(path string, got, want any) (all []error) {
	if slices.Contains(continued, path) || reflect.DeepEqual(got, want) {
		return nil
	}
	a, isObject := got.(map[string]any)
	b, isAlso := want.(map[string]any)
	if !isObject || !isAlso {
		return []error{Atf(path, "%s differs from that of the run to resume: got %s, want %s", path, shown(got), shown(want))}
	}
	keys := maps.Clone(a)
	maps.Copy(keys, b)
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		all = append(all, differences(path+"/"+k, a[k], b[k])...)
	}
	return all
}

// shown returns a value of a recipe as JSON.
func shown(v any) string {
	if v == nil {
		return "nothing"
	}
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
