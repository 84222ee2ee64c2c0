package remote

import (
	"fmt"
	"net/url"
	"strings"

	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/abi"
)

// layoutPrefix marks references to image layouts.
const layoutPrefix = "oci:"

// Reference names an artifact, or a place for one, outside the local store: an
// [abi.Ref] with a registry's host, or an image layout and a reference in it.
//
//	registry.example:5000/team/p-lite:0.1.0        a tag in a registry
//	registry.example/team/p-lite@sha256:…          a digest
//	oci:dist/p-lite:p-lite:0.1.0                   a reference name in the image layout dist/p-lite
//	oci:dist/p-lite@sha256:…                       a digest there
type Reference struct {
	Ref    abi.Ref // in a registry; in a layout the digest, and the parsed Entry if it is a reference
	Layout string  // folder of an image layout; empty for a registry
	Entry  string  // reference name in the layout, as in index.json; may be empty
}

// ReferenceError reports an argument that is not a reference, or not a complete one.
type ReferenceError struct {
	Ref string
	Err error
	Use string // the probable reference. Empty: none is known
}

// Error returns the reason, which quotes the reference.
func (e *ReferenceError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *ReferenceError) Unwrap() error { return e.Err }

// Hint returns what to write.
func (e *ReferenceError) Hint() string {
	if e.Use != "" {
		return "write " + e.Use
	}
	return "write HOST/REPOSITORY:TAG, such as registry.example/team/p-lite:0.1.0"
}

// CheckSpelling returns a [*ReferenceError] for a reference with a scheme, as other
// tools write it, or with blanks around it.
func CheckSpelling(s string) error {
	bare := strings.TrimSpace(s)
	scheme, rest, ok := strings.Cut(bare, "://")
	ok = ok && !strings.ContainsAny(scheme, "/.@")
	if ok {
		bare = strings.TrimSpace(rest)
	}
	e := &ReferenceError{Ref: s, Use: strings.TrimRight(bare, "/")}
	switch {
	case ok:
		e.Err = fmt.Errorf("%w: reference %q: leave out %s://", errdef.ErrInvalidReference, s, scheme)
	case bare != s:
		e.Err = fmt.Errorf("%w: reference %q: leave out the blanks around it", errdef.ErrInvalidReference, s)
	default:
		return nil
	}
	return e
}

// ParseReference parses a reference. In a layout the folder ends at the first
// colon after the last slash or backslash, so that reference names may hold
// colons; a name with slashes needs its digest. The error is a [*ReferenceError]
// and wraps errdef.ErrInvalidReference.
func ParseReference(s string) (Reference, error) {
	if err := CheckSpelling(s); err != nil {
		return Reference{}, err
	}
	r, err := parseReference(s)
	if err != nil {
		return Reference{}, &ReferenceError{Ref: s, Err: fmt.Errorf("%w: %w", errdef.ErrInvalidReference, err)}
	}
	return r, nil
}

func parseReference(s string) (Reference, error) {
	if rest, ok := strings.CutPrefix(s, layoutPrefix); ok {
		return parseLayout(s, rest)
	}
	ref, err := abi.ParseRef(s)
	switch {
	case err != nil:
		return Reference{}, err
	case ref.Host == "":
		return Reference{}, fmt.Errorf("reference %q names no registry; a host has a dot or a port, or is localhost", s)
	case ref.Constraint != "":
		return Reference{}, fmt.Errorf("reference %q: a registry has tags and digests, no version constraints", s)
	}
	if u, err := url.Parse("https://" + ref.Host + "/"); err != nil || u.Host != ref.Host || u.Hostname() == "" || u.User != nil {
		return Reference{}, fmt.Errorf("reference %q: host %q", s, ref.Host)
	}
	return Reference{Ref: ref}, nil
}

func parseLayout(s, rest string) (r Reference, err error) {
	digest := ""
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		digest, rest = rest[at+1:], rest[:at]
		if !abi.ValidDigest(digest) {
			return r, fmt.Errorf("reference %q: invalid digest %q", s, digest)
		}
	}
	base := strings.LastIndexAny(rest, `/\`) + 1
	r.Layout = rest
	if colon := strings.IndexByte(rest[base:], ':'); colon >= 0 {
		r.Layout, r.Entry = rest[:base+colon], rest[base+colon+1:]
		if r.Entry == "" {
			return r, fmt.Errorf("reference %q has nothing after the colon", s)
		}
	}
	if r.Layout == "" {
		return r, fmt.Errorf("reference %q names no folder", s)
	}
	// Layouts of other tools hold names that are not references; Entry is used
	// then.
	if ref, err := abi.ParseRef(r.Entry); err == nil && ref.Digest == "" {
		r.Ref = ref
	}
	r.Ref.Digest = digest
	return r, nil
}

// String spells the reference as [ParseReference] reads it.
func (r Reference) String() string {
	if r.Layout == "" {
		return r.Ref.String()
	}
	s := layoutPrefix + r.Layout
	if r.Entry != "" {
		s += ":" + r.Entry
	}
	if r.Ref.Digest != "" {
		s += "@" + r.Ref.Digest
	}
	return s
}

// Place is the repository with its host, as trust policies and the store's tags
// spell it; for a layout it is its folder.
func (r Reference) Place() string {
	if r.Layout != "" {
		return r.Layout
	}
	return r.Ref.Source()
}

// target returns the artifact's identifier in requests: the digest, the tag or
// the name in a layout.
func (r Reference) target() string {
	switch {
	case r.Ref.Digest != "":
		return r.Ref.Digest
	case r.Layout != "":
		return r.Entry
	}
	return r.Ref.Tag
}

// tag is the name under which the artifact is put: a tag, or a name in a
// layout; empty where only a digest leads to it.
func (r Reference) tag() string {
	if r.Layout != "" {
		return r.Entry
	}
	return r.Ref.Tag
}
