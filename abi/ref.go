package abi

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// Ref names a module by name and what versions of it will do:
//
//	core-llm@3.1.0                     exactly that version
//	vision-enc@1.3                     any 1.3.x
//	vision-enc@^1.3, @~1.3.2, @>=1.3 <2
//	core-llm@sha256:9f86…              exactly those bytes
//	registry.example/team/core-llm@3.1 from one repository only
type Ref struct {
	Source     string // "registry.example/team/core-llm"; empty when only a name is given
	Name       string // the last element of the path
	Constraint string // as written after the @; empty means any release
	Digest     string // "sha256:…" when the reference is by content
}

var (
	refName   = regexp.MustCompile(`^[a-z0-9]+(?:[._-][a-z0-9]+)*$`)
	refDigest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	refHost   = regexp.MustCompile(`^[A-Za-z0-9]+(?:[.-]+[A-Za-z0-9]+)*(?::[0-9]{1,5})?$`)
)

// maxRef bounds a reference's length in bytes.
const maxRef = 512

// ValidName reports whether s may name a module: lower-case letters and digits
// joined by single dots, dashes or underscores, at most 128 bytes (a path
// element of the OCI distribution spec).
func ValidName(s string) bool { return len(s) <= 128 && refName.MatchString(s) }

// ParseRef reads a reference.
func ParseRef(s string) (Ref, error) {
	if len(s) > maxRef {
		return Ref{}, fmt.Errorf("reference of %d bytes is over the limit of %d", len(s), maxRef)
	}
	path, want, found := strings.Cut(s, "@")
	if found && want == "" {
		return Ref{}, fmt.Errorf("reference %q has nothing after the @", s)
	}
	r := Ref{Name: path}
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		r.Source, r.Name = path, path[i+1:]
		if err := checkSource(path); err != nil {
			return Ref{}, fmt.Errorf("reference %q: %w", s, err)
		}
	}
	if !ValidName(r.Name) {
		return Ref{}, fmt.Errorf("reference %q: %q is no module name (lower-case letters and digits joined by . - _)", s, r.Name)
	}
	if strings.HasPrefix(want, "sha256:") || strings.HasPrefix(want, "sha512:") {
		if !refDigest.MatchString(want) {
			return Ref{}, fmt.Errorf("reference %q: a digest is sha256: and 64 lower-case hex digits", s)
		}
		r.Digest = want
		return r, nil
	}
	if want != "" {
		if _, err := semver.NewConstraint(want); err != nil {
			return Ref{}, fmt.Errorf("reference %q: %q is no version constraint", s, want)
		}
	}
	r.Constraint = want
	return r, nil
}

func checkSource(path string) error {
	parts := strings.Split(path, "/")
	if !refHost.MatchString(parts[0]) {
		return fmt.Errorf("%q is no registry host", parts[0])
	}
	for _, p := range parts[1:] {
		if !ValidName(p) {
			return fmt.Errorf("%q is no repository path element", p)
		}
	}
	return nil
}

// String prints the reference as it is written in a graph.
func (r Ref) String() string {
	s := r.Name
	if r.Source != "" {
		s = r.Source
	}
	switch {
	case r.Digest != "":
		return s + "@" + r.Digest
	case r.Constraint != "":
		return s + "@" + r.Constraint
	}
	return s
}

// Allows reports whether version v satisfies the reference. A pre-release is
// taken only when the constraint names one. A reference by digest allows every
// version: the digest decides.
func (r Ref) Allows(v *semver.Version) bool {
	if r.Digest != "" {
		return true
	}
	if r.Constraint == "" {
		return v.Prerelease() == ""
	}
	c, err := semver.NewConstraint(r.Constraint)
	return err == nil && c.Check(v)
}

// Exact returns the one version the reference allows, if it is of the form
// name@X.Y.Z.
func (r Ref) Exact() (*semver.Version, bool) {
	v, err := semver.StrictNewVersion(r.Constraint)
	return v, err == nil
}

// ParseVersion reads a module's version: strict SemVer 2.0.0, no leading v.
func ParseVersion(s string) (*semver.Version, error) {
	v, err := semver.StrictNewVersion(s)
	if err != nil {
		return nil, fmt.Errorf("%q is no semantic version (MAJOR.MINOR.PATCH)", s)
	}
	return v, nil
}
