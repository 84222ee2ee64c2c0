package abi_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/Masterminds/semver/v3"
	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/abi"
)

var digest = "sha256:" + strings.Repeat("0f", 32)

func TestParseRef(t *testing.T) {
	for in, want := range map[string]abi.Ref{
		"core-llm@3.1.0":                     {Name: "core-llm", Constraint: "3.1.0"},
		"core-llm":                           {Name: "core-llm"},
		"vision-enc@^1.3":                    {Name: "vision-enc", Constraint: "^1.3"},
		"vision-enc@>=1.3 <2 || 3.x":         {Name: "vision-enc", Constraint: ">=1.3 <2 || 3.x"},
		"a@" + digest:                        {Name: "a", Digest: digest},
		digest:                               {Digest: digest},
		"p-lite:0.1.0-rc.1":                  {Name: "p-lite", Tag: "0.1.0-rc.1"},
		"p-lite:1.0.0_abc":                   {Name: "p-lite", Tag: "1.0.0_abc"},
		"p-lite:latest":                      {Name: "p-lite", Tag: "latest"},
		"p-lite:0.1.0@" + digest:             {Name: "p-lite", Tag: "0.1.0", Digest: digest},
		"0.1.0":                              {Name: "0.1.0"},
		"team/p-lite:1":                      {Path: "team", Name: "p-lite", Tag: "1"},
		"reg.example:5000/team/core-llm@3.1": {Host: "reg.example:5000", Path: "team", Name: "core-llm", Constraint: "3.1"},
		"reg.example/a/b/c:0.1.0":            {Host: "reg.example", Path: "a/b", Name: "c", Tag: "0.1.0"},
		"localhost/p":                        {Host: "localhost", Name: "p"},
		"localhost:5000":                     {Name: "localhost", Tag: "5000"},
		"localhost:5000/p@" + digest:         {Host: "localhost:5000", Name: "p", Digest: digest},
		"Registry/p":                         {Host: "Registry", Name: "p"},
		"[::1]:5000/p:1":                     {Host: "[::1]:5000", Name: "p", Tag: "1"},
		"[::1]/p:1":                          {Host: "[::1]", Name: "p", Tag: "1"},
		"localhost:65535/p:1":                {Host: "localhost:65535", Name: "p", Tag: "1"},
		"a__b/c--d:X":                        {Path: "a__b", Name: "c--d", Tag: "X"},
		"reg.example/" + strings.Repeat("n", 200): {Host: "reg.example", Name: strings.Repeat("n", 200)},
	} {
		got, err := abi.ParseRef(in)
		if err != nil || got != want {
			t.Errorf("ParseRef(%q) = %+v, %v; want %+v", in, got, err, want)
		}
		if got.String() != in {
			t.Errorf("%q prints as %q", in, got)
		}
	}
}

func TestParseRefRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"a@sha256:" + strings.Repeat("0F", 32): "lower-case hex",
		"a@sha256:00":                          "64",
		"a@sha512:" + strings.Repeat("00", 64): "sha256",
		"sha256:00":                            "64",
		"sha512:" + strings.Repeat("00", 64):   "sha256",
		"a@":                                   "nothing after the @",
		"":                                     "bad module name",
		"Core@1":                               "bad module name",
		"../core@1":                            "bad registry host",
		"reg.example/../core@1":                "bad repository path",
		"reg.example/UPPER/core":               "bad repository path",
		"reg.example/":                         "bad module name",
		"reg_x.example/p":                      "bad registry host",
		"reg.example:123456/p":                 "bad registry host",
		"reg.example:65536/p":                  "bad port",
		"localhost:99999/a/p":                  "bad port",
		"localhost:0/p":                        "bad port",
		"[::1]:65536/p":                        "bad port",
		"a@one":                                "bad version constraint",
		"a:":                                   "bad tag",
		"a:b/c:":                               "bad tag",
		"a:-x":                                 "bad tag",
		"a:1.0.0+abc":                          "bad tag",
		"a:" + strings.Repeat("t", 129):        "bad tag",
		"a:1.0.0@^1":                           "both a tag and a version constraint",
		"a@b@c":                                "bad version constraint",
		"x.y/" + strings.Repeat("n", 256):      "repository too long",
		strings.Repeat("a", 600):               "reference too long",
	} {
		if got, err := abi.ParseRef(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseRef(%.40q) = %+v, %v, want an error with %q", in, got, err, want)
		}
	}
}

func TestParseModuleRef(t *testing.T) {
	for in, fail := range map[string]string{
		"core-llm@^3": "", "core-llm:3.1.0": "", "core-llm:3.1.0_x": "", "r.example/core-llm@" + digest: "",
		digest: "no module name before the digest", "core-llm:latest": `tag "latest" is not a version`, "core-llm:v3": "not a version", "core-llm@": "nothing after",
	} {
		if _, err := abi.ParseModuleRef(in); (err == nil) != (fail == "") || err != nil && !strings.Contains(err.Error(), fail) {
			t.Errorf("ParseModuleRef(%q): %v, want %q", in, err, fail)
		}
	}
}

func TestRefPlaces(t *testing.T) {
	for _, tc := range []struct{ in, repository, source, full string }{
		{"core-llm@^3", "local/core-llm", "", "core-llm"},
		{"team/core-llm:1", "local/team/core-llm", "team/core-llm", "team/core-llm"},
		{"reg.example/team/core-llm:1.0.0@" + digest, "reg.example/team/core-llm", "reg.example/team/core-llm", "team/core-llm"},
		{digest, "", "", ""},
	} {
		r, err := abi.ParseRef(tc.in)
		if err != nil {
			t.Fatal(err)
		}
		if r.Repository() != tc.repository || r.Source() != tc.source || r.FullName() != tc.full {
			t.Errorf("%s: repository %q, source %q, full name %q", tc.in, r.Repository(), r.Source(), r.FullName())
		}
		if tc.full == "" {
			continue
		}
		if got := r.Tagged("2.0.0-laptop").String(); got != strings.TrimPrefix(tc.source, "")+map[bool]string{true: tc.full}[tc.source == ""]+":2.0.0-laptop" {
			t.Errorf("%s tagged is %s", tc.in, got)
		}
	}
}

func TestRefJSON(t *testing.T) {
	type doc struct {
		Ref      abi.Ref   `json:"ref"`
		Base     abi.Ref   `json:"base,omitzero"`
		Requires []abi.Ref `json:"requires,omitempty"`
	}
	in := `{"ref":"core-llm@^3","requires":["a:1.0.0","r.example/b"]}`
	var got doc
	if err := json.Unmarshal([]byte(in), &got); err != nil {
		t.Fatal(err)
	}
	want := doc{Ref: abi.Ref{Name: "core-llm", Constraint: "^3"}, Requires: []abi.Ref{{Name: "a", Tag: "1.0.0"}, {Host: "r.example", Name: "b"}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if out, err := json.Marshal(got); err != nil || string(out) != in {
		t.Errorf("%s, %v", out, err)
	}
	for _, bad := range []string{`{"ref":""}`, `{"ref":"a@"}`, `{"ref":7}`} {
		if err := json.Unmarshal([]byte(bad), &got); err == nil {
			t.Errorf("%s accepted", bad)
		}
	}
}

func TestRefAllows(t *testing.T) {
	for _, tc := range []struct {
		ref     string
		yes, no []string
	}{
		{"a@3.1.0", []string{"3.1.0"}, []string{"3.1.1", "3.1.0-rc.1"}},
		{"a@1.3", []string{"1.3.0", "1.3.9"}, []string{"1.4.0", "1.2.9", "1.3.1-beta"}},
		{"a@^1.3", []string{"1.3.0", "1.9.9"}, []string{"2.0.0", "1.2.0"}},
		{"a@^0.8", []string{"0.8.1"}, []string{"0.9.0"}},
		{"a@~1.3.2", []string{"1.3.5"}, []string{"1.4.0"}},
		{"a@>=1.3 <2", []string{"1.5.0"}, []string{"2.0.0"}},
		{"a@1.0.0-rc.1", []string{"1.0.0-rc.1"}, []string{"1.0.0"}},
		{"a@1.0.0", []string{"1.0.0", "1.0.0+x"}, nil},
		{"a@1.0.0+x", []string{"1.0.0+x"}, []string{"1.0.0", "1.0.0+y"}},
		{"a:1.0.0", []string{"1.0.0"}, []string{"1.0.0+x", "1.0.1", "1.0.0-rc.1"}},
		{"a:1.0.0_x", []string{"1.0.0+x"}, []string{"1.0.0", "1.0.0+y"}},
		{"a@" + digest, []string{"1.0.0", "1.0.0-rc.1"}, nil},
		{"a", []string{"0.0.1", "9.0.0"}, []string{"1.0.0-rc.1"}},
	} {
		r, err := abi.ParseRef(tc.ref)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range tc.yes {
			if !r.Allows(semver.MustParse(v)) {
				t.Errorf("%s refuses %s", tc.ref, v)
			}
		}
		for _, v := range tc.no {
			if r.Allows(semver.MustParse(v)) {
				t.Errorf("%s allows %s", tc.ref, v)
			}
		}
	}
}

func TestCompareVersions(t *testing.T) {
	want := []string{"2.0.0", "1.10.0", "1.9.0+b", "1.9.0+a", "1.9.0", "3.0.0-rc.2", "3.0.0-rc.1", "2.0.0-rc.10", "2.0.0-rc.9"}
	for _, start := range [][]string{want, {"2.0.0-rc.9", "3.0.0-rc.1", "1.9.0", "1.9.0+a", "2.0.0", "2.0.0-rc.10", "1.9.0+b", "3.0.0-rc.2", "1.10.0"}} {
		var list []*semver.Version
		for _, s := range start {
			list = append(list, semver.MustParse(s))
		}
		slices.SortFunc(list, abi.CompareVersions)
		var got []string
		for _, v := range list {
			got = append(got, v.String())
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	}
}

func TestVersionTag(t *testing.T) {
	for version, tag := range map[string]string{"1.0.0": "1.0.0", "1.0.0-rc.1": "1.0.0-rc.1", "1.0.0+abc.7": "1.0.0_abc.7", "1.0.0-rc.1+a-b": "1.0.0-rc.1_a-b"} {
		if got := abi.VersionTag(version); got != tag || !abi.ValidTag(got) {
			t.Errorf("%s has the tag %q, want %q", version, got, tag)
		}
		if v, err := abi.TagVersion(tag); err != nil || v.String() != version {
			t.Errorf("%s is the tag of %v, %v", tag, v, err)
		}
	}
	for _, tag := range []string{"", "latest", "v1.0.0", "1.0", "1.0.0+abc", "1.0.0_a_b", "1.0.0_", "01.0.0", "a_1.0.0"} {
		if v, err := abi.TagVersion(tag); err == nil {
			t.Errorf("%q is read as version %s", tag, v)
		}
	}
}

// The meaning of a tag depends on the artifact, not on the form of the tag.
func TestTagMeaning(t *testing.T) {
	for _, tc := range []struct {
		tag, version, target string
		want                 abi.Meaning
	}{
		{"1.0.0", "1.0.0", "", abi.MeansVersion},
		{"1.0.0", "1.0.0", "laptop", abi.MeansVersion},
		{"1.0.0-laptop", "1.0.0", "laptop", abi.MeansTarget},
		{"1.0.0-laptop", "1.0.0-laptop", "", abi.MeansVersion},
		{"1.0.0-laptop", "1.0.0-laptop", "laptop", abi.MeansVersion},
		{"1.0.0-laptop-laptop", "1.0.0-laptop", "laptop", abi.MeansTarget},
		{"1.0.0-rc.1", "1.0.0", "laptop", abi.MeansMistake},
		{"1.0.0-rc.1", "1.0.0-rc.1", "laptop", abi.MeansVersion},
		{"1.0.0_abc", "1.0.0+abc", "", abi.MeansVersion},
		{"1.0.0_abc-laptop", "1.0.0+abc", "laptop", abi.MeansTarget},
		{"1.0.1", "1.0.0", "", abi.MeansMistake},
		{"latest", "1.0.0", "laptop", abi.MeansChannel},
		{"latest-laptop", "1.0.0", "laptop", abi.MeansChannel},
		{"1.0.0", "", "", abi.MeansMistake},
		{"", "", "", abi.MeansChannel},
	} {
		if got := abi.TagMeaning(tc.tag, tc.version, tc.target); got != tc.want {
			t.Errorf("tag %q on version %q, target %q means %d, want %d", tc.tag, tc.version, tc.target, got, tc.want)
		}
	}
}

func FuzzParseRef(f *testing.F) {
	for _, s := range []string{"registry.example/team/core-llm@^3.1", "a@" + digest, digest, "p-lite:0.1.0-rc.1", "[::1]:5000/a/b:x@" + digest, "team/p:1", "localhost:5000", "Registry/p"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := abi.ParseRef(s)
		if err != nil {
			return
		}
		if r.String() != s {
			t.Fatalf("%q reads as %+v, which prints as %q", s, r, r.String())
		}
		if again, err := abi.ParseRef(r.String()); err != nil || again != r {
			t.Fatalf("%q reads as %+v, which reads as %+v, %v", s, r, again, err)
		}
		if r.Name == "" && r.Digest == "" || r.Tag != "" && r.Constraint != "" {
			t.Fatalf("%q reads as %+v", s, r)
		}
	})
}

// FuzzTagVersion checks that versions and tags convert to each other.
func FuzzTagVersion(f *testing.F) {
	for _, s := range []string{"1.0.0", "1.0.0-rc.1_abc", "1.0.0_a_b", "latest"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, tag string) {
		v, err := abi.TagVersion(tag)
		if err != nil {
			return
		}
		if got := abi.VersionTag(v.String()); got != tag {
			t.Fatalf("tag %q is that of %s, whose tag is %q", tag, v, got)
		}
		if abi.TagMeaning(tag, v.String(), "x") != abi.MeansVersion {
			t.Fatalf("%q does not mean its own version", tag)
		}
	})
}
