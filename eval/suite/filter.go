package suite

import (
	"fmt"
	"regexp"
	"strings"

	"mm-abi.org/mm/internal/diag"
)

// noFilter is the harness's name for the answers themselves.
const noFilter = "none"

// filter extracts the judged part of an answer.
type filter struct {
	name  string
	steps []func(string) string
}

// apply extracts a part of an answer.
func (f filter) apply(answer string) string {
	for _, step := range f.steps {
		answer = step(answer)
	}
	return answer
}

// compileFilters checks the filters of a task.
func (t *Task) compileFilters(list *diag.List) {
	if len(t.spec.Filters) == 0 {
		t.filters = []filter{{name: noFilter}}
		return
	}
	for i, s := range t.spec.Filters {
		f := filter{name: s.Name}
		for j, step := range s.Steps {
			key := fmt.Sprintf("/filter_list/%d/filter/%d", i, j)
			names, ok := among(step.Function, "take_first", "regex", "lowercase", "uppercase", "remove_whitespace", "majority_vote")
			if !ok || t.spec.Output != Generate && step.Function != "take_first" {
				t.fault(list, diag.SuiteFilter, key+"/function", fmt.Sprintf("filter %q of %s tasks", step.Function, t.spec.Output), "known: "+names)
				continue
			}
			switch step.Function {
			case "lowercase":
				f.steps = append(f.steps, strings.ToLower)
			case "uppercase":
				f.steps = append(f.steps, strings.ToUpper)
			case "remove_whitespace":
				f.steps = append(f.steps, strings.TrimSpace)
			case "regex":
				r := t.pattern(list, key+"/regex_pattern", or(step.Pattern, `#### (\-?[0-9\.\,]+)`))
				f.steps = append(f.steps, extract(r, step.Select, or(step.Fallback, "[invalid]")))
			}
		}
		t.filters = append(t.filters, f)
	}
}

// extract returns the match of an index, from the end if it is negative, or the fallback.
// Of several groups the first that is not empty counts.
func extract(r *regexp.Regexp, index int, fallback string) func(string) string {
	return func(text string) string {
		all := r.FindAllStringSubmatch(text, -1)
		at := index
		if at < 0 {
			at += len(all)
		}
		if at < 0 || at >= len(all) {
			return fallback
		}
		groups := all[at]
		if len(groups) == 1 {
			return strings.TrimSpace(groups[0])
		}
		if len(groups) == 2 {
			return strings.TrimSpace(groups[1])
		}
		for _, g := range groups[1:] {
			if g != "" {
				return strings.TrimSpace(g)
			}
		}
		return fallback
	}
}
