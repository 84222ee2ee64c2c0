package registry

import (
	"cmp"
	"context"
	"io/fs"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/cas"
)

// DamagedError reports a layout whose index.json or oci-layout is missing or
// unreadable. [Rebuild] mends it.
type DamagedError struct {
	Dir string
	Err error
}

// Error names the damage.
func (e *DamagedError) Error() string { return e.Err.Error() }

// Unwrap returns the damage.
func (e *DamagedError) Unwrap() error { return e.Err }

// damagedSuffix is the ending of the name under which a damaged index.json is kept.
const damagedSuffix = ".damaged"

// Rebuild writes index.json and oci-layout of the layout at dir anew if they are
// missing or damaged, and returns the reference names that it restored, or nil for a
// sound layout: those that the manifests among the blobs state, NAME:VERSION and
// NAME:VERSION-TARGET. Of several manifests with one name, the newest with a
// referrer gets it, such as a signature. Other manifests are listed without a name.
// The damaged index.json is kept next to the new one.
func Rebuild(ctx context.Context, dir string) (refs []string, err error) {
	s, err := Open(dir, Options{MustExist: true, rebuild: func(s *Store) (err error) {
		refs, err = s.rebuild(ctx)
		return err
	}})
	if err != nil {
		return nil, err
	}
	return refs, s.Close()
}

// hasBlobs reports whether any blob exists, to distinguish a damaged layout from one
// that is being created.
func (s *Store) hasBlobs() bool {
	entries, err := cas.ReadDir(s.dir, cas.BlobDir+"/sha256")
	return err == nil && len(entries) > 0
}

// rebuild replaces index.json and oci-layout, unless another process has.
func (s *Store) rebuild(ctx context.Context) (refs []string, err error) {
	refs = []string{}
	lock, err := s.dir.Lock(ctx, cas.IndexLock)
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	if s.names.View(func(*nameIndex) error { return nil }) != nil {
		entries, err := s.restored(ctx)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if ref := refName(e); ref != "" {
				refs = append(refs, ref)
			}
		}
		if err := cas.IgnoreMissing(s.dir.Rename(ocispec.ImageIndexFile, ocispec.ImageIndexFile+damagedSuffix)); err != nil {
			return nil, err
		}
		if err := s.names.Create(entries); err != nil {
			return nil, err
		}
	}
	return refs, s.writeLayout()
}

// lost is a manifest whose entry in index.json is lost.
type lost struct {
	*artifact.Manifest
	ref    string // empty: it states none
	signed bool   // it is the subject of another
	child  bool   // it is in an index
	stored time.Time
}

// restored returns entries for the manifests among the blobs.
func (s *Store) restored(ctx context.Context) ([]ocispec.Descriptor, error) {
	found := map[digest.Digest]*lost{}
	err := s.EachBlob(func(_ string, d digest.Digest, fi fs.FileInfo) error {
		if fi.Size() > artifact.MaxManifestBytes {
			return ctx.Err()
		}
		desc, err := s.resolveDigest(d)
		if err != nil || !artifact.IsManifest(desc.MediaType) {
			return ctx.Err()
		}
		if n, err := s.node(desc); err == nil { // a damaged blob is the next step's finding
			found[d] = &lost{Manifest: n, ref: s.stated(ctx, desc), stored: fi.ModTime()}
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	byRef := map[string]*lost{}
	for _, m := range found {
		if m.Subject != nil && found[m.Subject.Digest] != nil {
			found[m.Subject.Digest].signed = true
		}
		for _, c := range m.Children {
			if found[c.Digest] != nil {
				found[c.Digest].child = true
			}
		}
	}
	for _, m := range found {
		if old := byRef[m.ref]; m.ref != "" && (old == nil || m.before(old)) {
			byRef[m.ref] = m
		}
	}
	var entries []ocispec.Descriptor
	for _, m := range found {
		switch {
		case byRef[m.ref] == m:
			entries = append(entries, entryOf(m.Manifest, m.ref))
		case !m.child:
			entries = append(entries, entryOf(m.Manifest, ""))
		}
	}
	return entries, nil
}

// before reports whether m gets the name that both state.
func (m *lost) before(o *lost) bool {
	if m.signed != o.signed {
		return m.signed
	}
	return cmp.Or(m.stored.Compare(o.stored), cmp.Compare(m.Descriptor.Digest, o.Descriptor.Digest)) > 0
}

// stated returns the reference name that a manifest states.
func (s *Store) stated(ctx context.Context, desc ocispec.Descriptor) string {
	id, err := artifact.Identify(ctx, s, desc)
	if err != nil || id.Kind == "" || id.Name == "" || id.Version == "" {
		return ""
	}
	tag := abi.VersionTag(id.Version)
	if id.Target != "" {
		tag = abi.TargetTag(id.Version, id.Target)
	}
	if ref := id.Name + ":" + tag; checkRef(ref) == nil {
		return ref
	}
	return ""
}
