package workspace

import (
	"cmp"
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/sign"
)

// Listed is one name of the store.
type Listed struct {
	Ref     string `json:"ref"`
	Kind    string `json:"kind"` // module, assembly, index; ? for other tools' artifacts
	Type    string `json:"type,omitempty"`
	Version string `json:"version,omitempty"`
	Digest  string `json:"digest"`
	Size    int64  `json:"size"`            // of all layers, in bytes
	Alias   string `json:"alias,omitempty"` // the artifact that an alias stands for

	Shared int64     `json:"shared"`              // of the size, bytes that other artifacts of the list hold too
	Signed []string  `json:"signed_by,omitempty"` // trusted keys that released it, by name or id
	Trust  string    `json:"trust,omitempty"`     // unsigned or refused, if no trusted key released it
	Added  time.Time `json:"added,omitzero"`      // to the store

	Targets []string `json:"targets,omitempty"` // of a build, in the order of its index
	Build   string   `json:"build,omitempty"`   // the listed build that this name is a target of
}

// List lists the names of the store, sorted.
func (w *Workspace) List(ctx context.Context) ([]Listed, error) {
	s, err := w.store()
	if err != nil {
		return nil, err
	}
	tags, err := s.Tags(ctx)
	if err != nil {
		return nil, err
	}
	list, builds, held := []Listed{}, map[string]string{}, map[string][]ocispec.Descriptor{}
	for _, t := range tags {
		l := Listed{Ref: t.Ref, Kind: "?", Digest: t.Descriptor.Digest.String()}
		at := &Located{ref: t.Ref, desc: t.Descriptor, src: s}
		if id, err := at.identify(ctx); err == nil {
			l.Kind, l.Type, l.Version = id.Kind, string(id.Type), id.Version
			if at.tree.Index != nil {
				l.Kind = "index"
			}
			for _, p := range at.tree.Parts {
				if p.Target != "" {
					l.Targets = append(l.Targets, p.Target)
					builds[t.Ref+"-"+p.Target+"@"+p.Descriptor.Digest.String()] = t.Ref
				}
			}
			_, l.Size = weight(at.tree)
			held[l.Digest] = layers(at.tree)
			w.trusted(ctx, s, &l)
		}
		if info, err := os.Stat(s.BlobPath(t.Descriptor)); err == nil {
			l.Added = info.ModTime().UTC().Truncate(time.Second)
		}
		if a, ok, err := w.alias(t.Ref); err == nil && ok {
			l.Alias = a.Repository + ":" + abi.VersionTag(a.Version)
		}
		list = append(list, l)
	}
	for i, l := range list {
		list[i].Build = builds[l.Ref+"@"+l.Digest]
		// The build of a single target is its target's manifest.
		for j, build := range list[:i] {
			if target, ok := strings.CutPrefix(l.Ref, build.Ref+"-"); ok && l.Kind == "assembly" && l.Digest == build.Digest {
				list[i].Build, list[j].Targets = build.Ref, append(list[j].Targets, target)
			}
		}
	}
	share(list, held)
	return list, nil
}

// layers returns the layers of an artifact, each once.
func layers(t *artifact.Tree) (out []ocispec.Descriptor) {
	seen := map[digest.Digest]bool{}
	for _, p := range t.Parts {
		for _, l := range p.Artifact.Layers {
			if !seen[l.Descriptor.Digest] {
				seen[l.Descriptor.Digest] = true
				out = append(out, l.Descriptor)
			}
		}
	}
	return out
}

// share sets the shared bytes of each entry. A build and its targets are one artifact, as
// are all names of a digest.
func share(list []Listed, held map[string][]ocispec.Descriptor) {
	root := map[string]string{} // the digest of the build, by its own and its targets' digests
	digests := map[string]string{}
	for _, l := range list {
		digests[l.Ref] = l.Digest
	}
	for _, l := range list {
		if root[l.Digest] == "" {
			root[l.Digest] = l.Digest
		}
		if l.Build != "" {
			root[l.Digest] = digests[l.Build]
		}
	}
	users := map[digest.Digest]map[string]bool{}
	for own, layers := range held {
		for _, d := range layers {
			if users[d.Digest] == nil {
				users[d.Digest] = map[string]bool{}
			}
			users[d.Digest][root[own]] = true
		}
	}
	for i := range list {
		for _, d := range held[list[i].Digest] {
			if len(users[d.Digest]) > 1 {
				list[i].Shared += d.Size
			}
		}
	}
}

// trusted sets the keys that released an entry.
func (w *Workspace) trusted(ctx context.Context, s *registry.Store, l *Listed) {
	at, err := w.findStored(ctx, l.Ref)
	if err != nil {
		return
	}
	l.Trust = "refused"
	j, err := w.Judge(ctx, at, Claim{Measure: true})
	if err == nil {
		l.Trust = ""
		for _, k := range j.Keys {
			l.Signed = append(l.Signed, cmp.Or(k.Name, k.ID[:min(len(k.ID), 12)]))
		}
	} else if list, err := bundles(ctx, s, at.desc); err == nil && len(list) == 0 {
		l.Trust = "unsigned"
	}
}

// weight returns the number of layers of an artifact and their bytes.
func weight(t *artifact.Tree) (files int, bytes int64) {
	for _, p := range t.Parts {
		files += len(p.Artifact.Layers)
		bytes += p.Artifact.Size()
	}
	return files, bytes
}

// View describes an artifact for display.
type View struct {
	Digest      string            `json:"digest"`
	MediaType   string            `json:"media_type"`
	Name        string            `json:"name,omitempty"`
	Version     string            `json:"version,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Signatures  []string          `json:"signatures"` // digests of the bundles' manifests; their worth is verification's business
	Layers      []ViewLayer       `json:"layers,omitempty"`
	Permissions []Permission      `json:"permissions,omitempty"` // that its skills ask for
	Functions   []string          `json:"functions,omitempty"`   // encoders, projectors and decoders of a build, for mm run BUILD/FUNCTION
	Targets     []View            `json:"targets,omitempty"`
	Target      string            `json:"target,omitempty"`
	Format      string            `json:"format,omitempty"`   // of another tool: ModelPack, KitOps ModelKit, Docker Model Runner, Ollama, files
	Remote      bool              `json:"remote,omitempty"`   // at a registry: the layers were not looked at
	Evidence    []Statement       `json:"evidence,omitempty"` // by trusted keys
}

// ViewLayer is one file of a [View].
type ViewLayer struct {
	Path        string            `json:"path"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	MediaType   string            `json:"media_type"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Role        string            `json:"role,omitempty"`    // of another tool's layer
	Packing     string            `json:"packing,omitempty"` // of another tool's layer: tar, tar+gzip, tar+zstd, gzip, zstd
}

// Inspect reads manifests, configs and the list of signatures. It decides
// nothing.
func (w *Workspace) Inspect(ctx context.Context, at *Located) (View, error) {
	src := &watched{Fetcher: at.src}
	t, err := artifact.ReadTree(ctx, src, at.desc)
	if err != nil {
		return View{Digest: at.desc.Digest.String(), MediaType: at.desc.MediaType, Signatures: []string{}}, src.unusable(at.ref, err)
	}
	v := view(t)
	v.Remote = at.Remote()
	if v.Signatures, err = bundles(ctx, at.src, at.desc); err != nil {
		return v, err
	}
	if t.Index == nil {
		if v.Permissions, err = permissions(ctx, at.src, t.Parts[0].Artifact); err == nil {
			v.Evidence, err = w.attested(ctx, at, t.Parts[0], v)
		}
		return v, err
	}
	for i := range v.Targets {
		if v.Targets[i].Signatures, err = bundles(ctx, at.src, t.Parts[i].Descriptor); err != nil {
			return v, err
		}
		if v.Targets[i].Permissions, err = permissions(ctx, at.src, t.Parts[i].Artifact); err != nil {
			return v, err
		}
		if v.Targets[i].Evidence, err = w.attested(ctx, at, t.Parts[i], v.Targets[i]); err != nil {
			return v, err
		}
	}
	return v, nil
}

// attested returns the statements by trusted keys about a part. Of an artifact without
// bundles, or with an unreadable trust file, it returns none.
func (w *Workspace) attested(ctx context.Context, at *Located, p artifact.Part, v View) ([]Statement, error) {
	if _, err := w.judges(); err != nil || len(v.Signatures) == 0 {
		return nil, nil
	}
	e, err := w.evidence(ctx, at, p)
	return e.Statements, err
}

func view(t *artifact.Tree) View {
	if t.Index == nil {
		return viewPart(t.Parts[0])
	}
	v := View{Digest: t.Descriptor.Digest.String(), MediaType: t.Descriptor.MediaType, Signatures: []string{}, Annotations: t.Index.Annotations}
	v.Name, v.Version = v.Annotations[abi.AnnotationName], v.Annotations[abi.AnnotationVersion]
	for _, p := range t.Parts {
		v.Targets = append(v.Targets, viewPart(p))
	}
	return v
}

func viewPart(p artifact.Part) View {
	a := p.Artifact
	v := View{Digest: p.Descriptor.Digest.String(), MediaType: p.Descriptor.MediaType, Signatures: []string{},
		Name: a.Name, Version: a.Version, Annotations: a.Annotations, Target: p.Target, Format: a.Foreign}
	for _, l := range a.Layers {
		if name := l.Annotations[abi.AnnotationComponent]; isFunction(l) && name != "" && !slices.Contains(v.Functions, name) {
			v.Functions = append(v.Functions, name)
		}
		v.Layers = append(v.Layers, ViewLayer{l.Path, l.Descriptor.Digest.String(), l.Descriptor.Size, l.Descriptor.MediaType, l.Annotations, string(l.Role), string(l.Packing)})
	}
	return v
}

// maxSignatures bounds the bundles that are listed for one manifest.
const maxSignatures = 256

// bundles lists the digests of the bundles that refer to desc.
func bundles(ctx context.Context, src content.ReadOnlyGraphStorage, desc ocispec.Descriptor) ([]string, error) {
	found := []string{}
	take := func(page []ocispec.Descriptor) {
		for _, d := range page {
			if d.ArtifactType == sign.BundleMediaType && len(found) < maxSignatures {
				found = append(found, d.Digest.String())
			}
		}
	}
	switch s := src.(type) {
	case interface {
		Referrers(context.Context, ocispec.Descriptor, string) ([]ocispec.Descriptor, error)
	}:
		list, err := s.Referrers(ctx, desc, sign.BundleMediaType)
		take(list)
		return found, err
	case interface {
		Referrers(context.Context, ocispec.Descriptor, string, func([]ocispec.Descriptor) error) error
	}:
		err := s.Referrers(ctx, desc, sign.BundleMediaType, func(page []ocispec.Descriptor) error { take(page); return nil })
		return found, err
	}
	return found, nil
}
