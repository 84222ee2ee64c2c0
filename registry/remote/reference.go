package remote

import (
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/errdef"
	orasregistry "oras.land/oras-go/v2/registry"
)

// layoutPrefix marks references to image layouts.
const layoutPrefix = "oci:"

// Reference names an artifact, or a place for one, outside the local store:
//
//	registry.example:5000/team/p-lite:0.1.0        a tag in a registry
//	registry.example/team/p-lite@sha256:…          a digest
//	oci:dist/p-lite:p-lite:0.1.0                   a reference name in the image layout dist/p-lite
//	oci:dist/p-lite@sha256:…                       a digest there
type Reference struct {
	Layout     string        // folder of an image layout; empty for a registry
	Host       string        // registry.example:5000
	Repository string        // team/p-lite
	Tag        string        // or the reference name in a layout; may be empty
	Digest     digest.Digest // goes before Tag; may be empty
}

// ParseReference reads a reference. In a layout the folder ends at the first
// colon after the last slash or backslash, so that reference names may hold
// colons; a name with slashes is told by its digest only. The error wraps
// errdef.ErrInvalidReference.
func ParseReference(s string) (Reference, error) {
	if rest, ok := strings.CutPrefix(s, layoutPrefix); ok {
		return parseLayout(s, rest)
	}
	o, err := orasregistry.ParseReference(s)
	if err == nil && strings.HasSuffix(s, ":") {
		err = fmt.Errorf("%w: nothing after the colon", errdef.ErrInvalidReference)
	}
	if err != nil {
		return Reference{}, fmt.Errorf("reference %q: %w", s, err)
	}
	if u, err := url.Parse("https://" + o.Registry + "/"); err != nil || u.Host != o.Registry || u.Hostname() == "" || u.User != nil {
		return Reference{}, fmt.Errorf("reference %q: %w: host %q", s, errdef.ErrInvalidReference, o.Registry)
	}
	r := Reference{Host: o.Registry, Repository: o.Repository}
	if d, err := o.Digest(); err == nil {
		r.Digest = d
	} else {
		r.Tag = o.Reference
	}
	return r, nil
}

func parseLayout(s, rest string) (Reference, error) {
	var r Reference
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		d, err := digest.Parse(rest[at+1:])
		if err != nil {
			return Reference{}, fmt.Errorf("reference %q: %w: %w", s, errdef.ErrInvalidReference, err)
		}
		r.Digest, rest = d, rest[:at]
	}
	base := strings.LastIndexAny(rest, `/\`) + 1
	if colon := strings.IndexByte(rest[base:], ':'); colon >= 0 {
		r.Tag, rest = rest[base+colon+1:], rest[:base+colon]
		if r.Tag == "" {
			return Reference{}, fmt.Errorf("reference %q: %w: nothing after the colon", s, errdef.ErrInvalidReference)
		}
	}
	if rest == "" {
		return Reference{}, fmt.Errorf("reference %q: %w: no folder", s, errdef.ErrInvalidReference)
	}
	r.Layout = rest
	return r, nil
}

// String spells the reference as [ParseReference] reads it.
func (r Reference) String() string {
	s := r.Name()
	if r.Layout != "" {
		s = layoutPrefix + r.Layout
	}
	if r.Tag != "" {
		s += ":" + r.Tag
	}
	if r.Digest != "" {
		s += "@" + r.Digest.String()
	}
	return s
}

// Name is the repository with its host, as trust policies and the store's tags
// spell it; for a layout it is its folder.
func (r Reference) Name() string {
	if r.Layout != "" {
		return r.Layout
	}
	return r.Host + "/" + r.Repository
}

// target is what stands for the artifact in requests: the digest or the tag.
func (r Reference) target() string {
	if r.Digest != "" {
		return r.Digest.String()
	}
	return r.Tag
}

// loopback reports whether host (with or without a port) is this machine by
// name or address.
func loopback(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.Trim(name, "[]")
	if strings.EqualFold(name, "localhost") {
		return true
	}
	ip := net.ParseIP(name)
	return ip != nil && ip.IsLoopback()
}
