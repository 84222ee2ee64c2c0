package abi

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// Ref names a module or a build, or a place for one. There is one grammar for
// graphs, the store, image layouts and registries:
//
//	[REGISTRY/…/]NAME[:TAG|@CONSTRAINT|@DIGEST]    or    DIGEST
//
//	core-llm@3.1.0                     exactly that version
//	vision-enc@^1.3, @~1.3.2, @1.3     any version that fits
//	core-llm@sha256:9f86…              exactly those bytes
//	p-lite:0.1.0                       what bears that tag
//	registry.example/team/core-llm@3.1 from one repository only
//	sha256:9f86…                       bytes without a name
//
// The first element of several is a registry's host when it has a dot, a port
// or a capital letter, or is localhost; otherwise it belongs to the path. A
// reference may have a tag and a digest: the digest decides.
type Ref struct {
	Host       string // "registry.example:5000"; empty where no registry is named
	Path       string // what stands between host and name, "team"; may be empty
	Name       string // the last element; empty in a bare digest
	Tag        string // "0.1.0", "0.1.0-laptop", "latest"; see TagMeaning
	Constraint string // of versions, as written after the @; empty means any release
	Digest     string // "sha256:…" when the reference is by content
}

// LocalHost stands in the place of the host in the repository of what never
// was in a registry ([Ref.Repository]).
const LocalHost = "local"

// refElement is a path element of the OCI distribution spec v1.1 (Pulling
// manifests).
const refElement = `[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*`

var (
	refName   = regexp.MustCompile(`^` + refElement + `$`)
	refPath   = regexp.MustCompile(`^` + refElement + `(?:/` + refElement + `)*$`)
	refTag    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
	refDigest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	refHost   = regexp.MustCompile(`^(?:[A-Za-z0-9]+(?:[.-]+[A-Za-z0-9]+)*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?$`)
)

// Limits of a reference in bytes.
const (
	maxRef  = 512
	maxName = 128
	maxPath = 255 // path and name together
)

var errBadDigest = errors.New("a digest is sha256: and 64 lower-case hex digits")

// ValidName reports whether s may name a module: a path element of the OCI
// distribution spec (lower-case letters and digits joined by dots, dashes or
// underscores), at most 128 bytes.
func ValidName(s string) bool { return len(s) <= maxName && refName.MatchString(s) }

// ValidRepository reports whether s may be a repository within a registry, the
// <name> of the OCI distribution spec.
func ValidRepository(s string) bool { return len(s) <= maxPath && refPath.MatchString(s) }

// ValidTag reports whether s may be a tag (OCI distribution spec).
func ValidTag(s string) bool { return refTag.MatchString(s) }

// ValidDigest reports whether s is the SHA-256 digest of something.
func ValidDigest(s string) bool { return refDigest.MatchString(s) }

// ValidTarget reports whether s may name a target of a build, which becomes a
// folder and part of a tag: the form of a module's name, at most 64 bytes.
func ValidTarget(s string) bool { return len(s) <= 64 && refName.MatchString(s) }

// ParseRef reads a reference.
func ParseRef(s string) (Ref, error) {
	if len(s) > maxRef {
		return Ref{}, fmt.Errorf("reference of %d bytes is over the limit of %d", len(s), maxRef)
	}
	r, err := parseRef(s)
	if err != nil {
		return Ref{}, fmt.Errorf("reference %q: %w", s, err)
	}
	return r, nil
}

func parseRef(s string) (r Ref, err error) {
	if isDigest(s) {
		r.Digest = s
		return r, checkDigest(s)
	}
	place, want, found := strings.Cut(s, "@")
	if found && want == "" {
		return r, errors.New("nothing after the @")
	}
	if i := strings.LastIndexByte(place, ':'); i > strings.LastIndexByte(place, '/') {
		place, r.Tag = place[:i], place[i+1:]
		if !ValidTag(r.Tag) {
			return r, fmt.Errorf("%q is no tag (letters, digits, . - _)", r.Tag)
		}
	}
	if err := r.place(place); err != nil {
		return r, err
	}
	switch {
	case isDigest(want):
		r.Digest = want
		return r, checkDigest(want)
	case want != "" && r.Tag != "":
		return r, errors.New("a tag and a version constraint; one of them is enough")
	case want != "":
		r.Constraint = want
		if _, err := semver.NewConstraint(want); err != nil {
			return r, fmt.Errorf("%q is no version constraint", want)
		}
	}
	return r, nil
}

// place cuts a place into host, path and name.
func (r *Ref) place(s string) error {
	if first, rest, more := strings.Cut(s, "/"); more && isHost(first) {
		if !refHost.MatchString(first) {
			return fmt.Errorf("%q is no registry host", first)
		}
		r.Host, s = first, rest
	}
	r.Name = s
	if i := strings.LastIndexByte(s, '/'); i >= 0 {
		r.Path, r.Name = s[:i], s[i+1:]
	}
	switch {
	case r.Path != "" && !refPath.MatchString(r.Path), strings.HasPrefix(s, "/"):
		return fmt.Errorf("%q holds what is no repository path element", s)
	case !refName.MatchString(r.Name):
		return fmt.Errorf("%q is no module name (lower-case letters and digits joined by . - _)", r.Name)
	case len(s) > maxPath:
		return fmt.Errorf("a repository of %d bytes is over the limit of %d", len(s), maxPath)
	}
	return nil
}

// isHost tells a registry's host from the first element of a path.
func isHost(s string) bool {
	return strings.ContainsAny(s, ".:[") || s == "localhost" || strings.ToLower(s) != s
}

func isDigest(s string) bool {
	return strings.HasPrefix(s, "sha256:") || strings.HasPrefix(s, "sha512:")
}

func checkDigest(s string) error {
	if !refDigest.MatchString(s) {
		return errBadDigest
	}
	return nil
}

// ParseModuleRef reads a reference by which a graph or a manifest asks for a
// module: it has a name, and its tag, where it has one, is that of a version.
// What it means must not change from one day to the next without a lock.
func ParseModuleRef(s string) (Ref, error) {
	r, err := ParseRef(s)
	if err != nil {
		return Ref{}, err
	}
	if r.Name == "" {
		return Ref{}, fmt.Errorf("reference %q has no module name before the digest", s)
	}
	if r.Tag != "" {
		if _, err := TagVersion(r.Tag); err != nil {
			return Ref{}, fmt.Errorf("reference %q: %w; name a version or a constraint", s, err)
		}
	}
	return r, nil
}

// String prints the reference as [ParseRef] reads it.
func (r Ref) String() string {
	s := r.FullName()
	if r.Host != "" {
		s = r.Host + "/" + s
	}
	if r.Tag != "" {
		s += ":" + r.Tag
	}
	switch {
	case r.Digest != "" && s == "":
		return r.Digest
	case r.Digest != "":
		return s + "@" + r.Digest
	case r.Constraint != "":
		return s + "@" + r.Constraint
	}
	return s
}

// FullName is the reference without its host and what follows the name,
// "team/core-llm": the <name> of the distribution spec.
func (r Ref) FullName() string {
	if r.Path == "" {
		return r.Name
	}
	return r.Path + "/" + r.Name
}

// Source is the repository that the reference insists on,
// "registry.example/team/core-llm"; empty when it gives only a name.
func (r Ref) Source() string {
	switch {
	case r.Host != "":
		return r.Host + "/" + r.FullName()
	case r.Path != "":
		return r.FullName()
	}
	return ""
}

// Repository is what the patterns of a trust file match:
// "registry.example/team/core-llm", or "local/core-llm" where no registry is
// named. It is empty for a bare digest.
func (r Ref) Repository() string {
	switch {
	case r.Name == "":
		return ""
	case r.Host != "":
		return r.Host + "/" + r.FullName()
	}
	return LocalHost + "/" + r.FullName()
}

// Bare is the reference without tag, constraint and digest.
func (r Ref) Bare() Ref { return Ref{Host: r.Host, Path: r.Path, Name: r.Name} }

// Tagged is the place of the reference with another tag and nothing else.
func (r Ref) Tagged(tag string) Ref {
	r = r.Bare()
	r.Tag = tag
	return r
}

// MarshalText writes the reference as String does.
func (r Ref) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads what [ParseRef] reads.
func (r *Ref) UnmarshalText(text []byte) error {
	got, err := ParseRef(string(text))
	if err != nil {
		return err
	}
	*r = got
	return nil
}

// Allows reports whether version v satisfies the reference. A pre-release is
// taken only when the constraint names one, and of versions that differ in
// build metadata alone the one that is named. A reference by digest allows
// every version: the digest decides.
func (r Ref) Allows(v *semver.Version) bool {
	switch {
	case r.Digest != "":
		return true
	case r.Tag != "":
		return VersionTag(v.String()) == r.Tag
	case r.Constraint == "":
		return v.Prerelease() == ""
	}
	if exact, ok := r.Exact(); ok && exact.Metadata() != "" {
		return v.String() == exact.String()
	}
	c, err := semver.NewConstraint(r.Constraint)
	return err == nil && c.Check(v)
}

// Exact returns the one version the reference allows, if it is of the form
// name@X.Y.Z or name:X.Y.Z.
func (r Ref) Exact() (*semver.Version, bool) {
	if r.Tag != "" {
		v, err := TagVersion(r.Tag)
		return v, err == nil
	}
	v, err := semver.StrictNewVersion(r.Constraint)
	return v, err == nil
}
