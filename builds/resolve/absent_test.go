package resolve

import (
	"context"
	"testing"

	"github.com/Masterminds/semver/v3"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// fixed is a source of one candidate.
type fixed struct{ candidates []Candidate }

func (f fixed) Candidates(context.Context, Query) ([]Candidate, error) { return f.candidates, nil }
func (f fixed) String() string                                         { return "fixed" }

// A listed version without a manifest is passed over, with a warning.
func TestAbsentVersionIsTold(t *testing.T) {
	ghost := &stored{find: func(context.Context) (ocispec.Descriptor, error) {
		return ocispec.Descriptor{}, &absentError{"registry.example/team/core:9.9.9"}
	}}
	var warnings []string
	opt := Options{Say: func(s string) { warnings = append(warnings, s) }, Sources: []Source{
		fixed{[]Candidate{{Name: "core", Version: semver.MustParse("9.9.9"), Repository: "registry.example/team/core", module: ghost}}},
	}}
	resolved, list, err := Look(context.Background(), graph(t, "core"), opt)
	if err != nil || list.Failed() || resolved["core"] != nil || len(warnings) != 1 {
		t.Errorf("%v, %v, %v, warned %q", resolved, list, err, warnings)
	}
}
