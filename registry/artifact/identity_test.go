package artifact_test

import (
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/registry/artifact"
)

// The identity comes from the annotations; name and version of a manifest are
// those that its config agreed with.
func TestIdentity(t *testing.T) {
	notes := map[string]string{
		abi.AnnotationKind: abi.KindAssembly, abi.AnnotationName: "p", abi.AnnotationVersion: "0.1.0", abi.AnnotationTarget: "laptop", abi.AnnotationABI: string(abi.V1_1),
	}
	want := artifact.Identity{Name: "p", Version: "0.1.0", Kind: abi.KindAssembly, Target: "laptop", ABI: abi.V1_1}
	a := artifact.Artifact{Name: "p", Version: "0.1.0", Annotations: notes}
	if got := a.Identity(); got != want || got.String() != "p 0.1.0 for laptop" {
		t.Errorf("%+v", got)
	}
	foreign := artifact.Artifact{Name: "theirs", Version: "2"}
	if got := foreign.Identity(); got.String() != "theirs 2" || got.Kind != "" {
		t.Errorf("%+v", got)
	}
	delete(notes, abi.AnnotationTarget)
	ix := artifact.Index{Annotations: notes}
	if got := ix.Identity(); got.String() != "p 0.1.0" || got.Kind != abi.KindAssembly {
		t.Errorf("%+v", got)
	}
	for _, tc := range []struct {
		ref  string
		want abi.Meaning
	}{
		{"p:0.1.0-laptop", abi.MeansTarget}, {"0.1.0-laptop", abi.MeansTarget}, {"0.1.0", abi.MeansVersion}, {"latest", abi.MeansChannel},
		{"x.example:5000/a/p:0.1.0", abi.MeansVersion}, {"p:0.1.1", abi.MeansMistake},
	} {
		if got := want.Meaning(tc.ref); got != tc.want {
			t.Errorf("%s on %s means %d, want %d", tc.ref, want, got, tc.want)
		}
	}
}
