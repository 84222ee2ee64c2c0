package abi

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/Masterminds/semver/v3"
)

// Ref names a module, a build or a location. Graphs, the store, image layouts and
// registries use the same grammar:
//
//	[REGISTRY/…/]NAME[:TAG|@CONSTRAINT|@DIGEST]    or    DIGEST
//
//	core-llm@3.1.0                     exactly that version
//	vision-enc@^1.3, @~1.3.2, @1.3     any matching version
//	core-llm@sha256:9f86…              exactly that content
//	p-lite:0.1.0                       the artifact with that tag
//	registry.example/team/core-llm@3.1 from that repository only
//	sha256:9f86…                       content without a name
//
// The first of several elements is a registry host if it contains a dot, a port or a
// capital letter, or is localhost; otherwise it is part of the path. If a reference has a
// tag and a digest, the digest decides.
type Ref struct {
	Host       string // "registry.example:5000"; may be empty
	Path       string // between host and name, "team"; may be empty
	Name       string // the last element; empty in a bare digest
	Tag        string // "0.1.0", "0.1.0-laptop", "latest"; see TagMeaning
	Constraint string // of versions, as written after the @; empty means any release
	Digest     string // "sha256:…" when the reference is by content
}

// LocalHost is the host in the repository of content that is not from a registry
// ([Ref.Repository]).
const LocalHost = "local"

// refElement matches a path element of the OCI distribution spec v1.1 (Pulling manifests).
const refElement = `[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*`

var (
	refName   = lazy(`^` + refElement + `$`)
	refPath   = lazy(`^` + refElement + `(?:/` + refElement + `)*$`)
	refTag    = lazy(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
	refDigest = lazy(`^sha256:[0-9a-f]{64}$`)
	refHost   = lazy(`^(?:[A-Za-z0-9]+(?:[.-]+[A-Za-z0-9]+)*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?$`)
)

// Limits of a reference in bytes.
const (
	maxRef    = 512
	maxName   = 128
	maxTarget = 64
	maxPath   = 255 // path and name together
)

var errBadDigest = errors.New("want sha256: and 64 lower-case hex digits")

// ValidName reports whether s is a valid module name: a path element of the OCI
// distribution spec (lower-case letters and digits joined by dots, dashes or underscores)
// of at most 128 bytes.
func ValidName(s string) bool { return len(s) <= maxName && refName().MatchString(s) }

// ValidRepository reports whether s is a valid repository within a registry, the <name> of
// the OCI distribution spec.
func ValidRepository(s string) bool { return len(s) <= maxPath && refPath().MatchString(s) }

// ValidTag reports whether s is a valid tag (OCI distribution spec).
func ValidTag(s string) bool { return refTag().MatchString(s) }

// ValidDigest reports whether s is a SHA-256 digest.
func ValidDigest(s string) bool { return refDigest().MatchString(s) }

// ValidTarget reports whether s is a valid target of a build, which becomes a folder and
// part of a tag: the form of a module name, at most 64 bytes.
func ValidTarget(s string) bool { return len(s) <= maxTarget && refName().MatchString(s) }

// lazy compiles a pattern on first use.
func lazy(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// ParseRef parses a reference.
func ParseRef(s string) (Ref, error) {
	if len(s) > maxRef {
		return Ref{}, fmt.Errorf("reference too long: got %d bytes, limit %d", len(s), maxRef)
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
			return r, fmt.Errorf("bad tag %q, want letters, digits, . - _", r.Tag)
		}
	}
	if err := r.splitPlace(place); err != nil {
		return r, err
	}
	switch {
	case isDigest(want):
		r.Digest = want
		return r, checkDigest(want)
	case want != "" && r.Tag != "":
		return r, errors.New("got both a tag and a version constraint")
	case want != "":
		r.Constraint = want
		if _, err := semver.NewConstraint(want); err != nil {
			return r, fmt.Errorf("bad version constraint %q", want)
		}
	}
	return r, nil
}

// place splits a location into host, path and name.
func (r *Ref) splitPlace(s string) error {
	if first, rest, more := strings.Cut(s, "/"); more && isHost(first) {
		if !refHost().MatchString(first) {
			return fmt.Errorf("bad registry host %q", first)
		}
		if i := strings.LastIndexByte(first, ':'); i > strings.IndexByte(first, ']') {
			if port, err := strconv.ParseUint(first[i+1:], 10, 16); err != nil || port == 0 {
				return fmt.Errorf("bad port of registry host %q, want 1 to 65535", first)
			}
		}
		r.Host, s = first, rest
	}
	r.Name = s
	if i := strings.LastIndexByte(s, '/'); i >= 0 {
		r.Path, r.Name = s[:i], s[i+1:]
	}
	switch {
	case r.Path != "" && !refPath().MatchString(r.Path), strings.HasPrefix(s, "/"):
		return fmt.Errorf("bad repository path %q", s)
	case !refName().MatchString(r.Name):
		return fmt.Errorf("bad module name %q, want lower-case letters and digits joined by . - _", r.Name)
	case len(s) > maxPath:
		return fmt.Errorf("repository too long: got %d bytes, limit %d", len(s), maxPath)
	}
	return nil
}

// isHost reports whether the first path element is a registry host.
func isHost(s string) bool {
	return strings.ContainsAny(s, ".:[") || s == "localhost" || strings.ToLower(s) != s
}

func isDigest(s string) bool {
	return strings.HasPrefix(s, "sha256:") || strings.HasPrefix(s, "sha512:")
}

func checkDigest(s string) error {
	if !refDigest().MatchString(s) {
		return errBadDigest
	}
	return nil
}

// ParseModuleRef parses a reference to a module in a graph or manifest: it must have a
// name, and a tag, if any, must be that of a version, so that its meaning does not change
// without a lock.
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

// String formats the reference so that [ParseRef] parses it.
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

// FullName returns path and name, "team/core-llm": the <name> of the distribution spec.
func (r Ref) FullName() string {
	if r.Path == "" {
		return r.Name
	}
	return r.Path + "/" + r.Name
}

// Source returns the repository that the reference requires,
// "registry.example/team/core-llm", or "" if it has only a name.
func (r Ref) Source() string {
	switch {
	case r.Host != "":
		return r.Host + "/" + r.FullName()
	case r.Path != "":
		return r.FullName()
	}
	return ""
}

// Repository returns the string that the patterns of a trust file match:
// "registry.example/team/core-llm", or "local/core-llm" without a registry. It is empty for
// a bare digest.
func (r Ref) Repository() string {
	switch {
	case r.Name == "":
		return ""
	case r.Host != "":
		return r.Host + "/" + r.FullName()
	}
	return LocalHost + "/" + r.FullName()
}

// Bare returns the reference without tag, constraint and digest.
func (r Ref) Bare() Ref { return Ref{Host: r.Host, Path: r.Path, Name: r.Name} }

// Tagged returns the location of the reference with another tag.
func (r Ref) Tagged(tag string) Ref {
	r = r.Bare()
	r.Tag = tag
	return r
}

// MarshalText formats the reference like String.
func (r Ref) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText parses like [ParseRef].
func (r *Ref) UnmarshalText(text []byte) error {
	got, err := ParseRef(string(text))
	if err != nil {
		return err
	}
	*r = got
	return nil
}

// Allows reports whether version v satisfies the reference. A pre-release matches only if
// the constraint names one, and of versions that differ only in build metadata only the
// named one. A digest allows every version.
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

// Exact returns the only version that the reference allows, if it has the form name@X.Y.Z
// or name:X.Y.Z.
func (r Ref) Exact() (*semver.Version, bool) {
	if r.Tag != "" {
		v, err := TagVersion(r.Tag)
		return v, err == nil
	}
	v, err := semver.StrictNewVersion(r.Constraint)
	return v, err == nil
}
