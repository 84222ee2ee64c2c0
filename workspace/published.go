package workspace

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry/cas"
	"mm-abi.org/mm/registry/remote"
)

// Repositories lists the repositories of a registry, HOST or HOST/PREFIX.
func (w *Workspace) Repositories(ctx context.Context, arg string) ([]string, error) {
	client, err := w.online(arg)
	if err != nil {
		return nil, err
	}
	host, prefix, _ := strings.Cut(strings.TrimSuffix(arg, "/"), "/")
	names, err := client.Repositories(ctx, host)
	if err != nil {
		return nil, err
	}
	out := []string{}
	for _, name := range names {
		if prefix == "" || name == prefix || strings.HasPrefix(name, prefix+"/") {
			out = append(out, host+"/"+name)
		}
	}
	return out, nil
}

// PublishedTag is a tag of a repository.
type PublishedTag struct {
	Ref    string `json:"ref"`
	Digest string `json:"digest"`
}

// Tags lists the tags of a repository with their digests: versions first, the newest on top.
func (w *Workspace) Tags(ctx context.Context, repository string) ([]PublishedTag, error) {
	client, err := w.online(repository)
	if err != nil {
		return nil, err
	}
	tags, err := client.Tags(ctx, repository)
	if err != nil {
		return nil, err
	}
	if len(tags) == 0 {
		return nil, fault(diag.NoArtifact, repository+" has no tags", "mm registry ls HOST lists repositories")
	}
	src, err := client.Source(repository)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(tags, newestFirst)
	var out []PublishedTag
	for _, tag := range tags {
		desc, err := src.Current(ctx, repository+":"+tag)
		if errors.Is(err, errdef.ErrNotFound) {
			continue // deleted since it was listed
		}
		if err != nil {
			return nil, err
		}
		out = append(out, PublishedTag{repository + ":" + tag, desc.Digest.String()})
	}
	return out, nil
}

// newestFirst orders tags: versions before others, the newest first.
func newestFirst(a, b string) int {
	x, errX := abi.TagVersion(a)
	y, errY := abi.TagVersion(b)
	switch {
	case errX == nil && errY == nil:
		return abi.CompareVersions(x, y)
	case errX == nil:
		return -1
	case errY == nil:
		return 1
	}
	return strings.Compare(a, b)
}

// Unpublish deletes tags or manifests at their registries and returns the deleted names.
func (w *Workspace) Unpublish(ctx context.Context, refs ...string) (deleted []string, err error) {
	if err := w.recordable(ctx); err != nil {
		return nil, err
	}
	for _, ref := range refs {
		if slices.Contains(deleted, ref) { // a target of a build before it
			continue
		}
		client, err := w.online(ref)
		if err != nil {
			return deleted, err
		}
		also := w.publishedTargets(ctx, ref)
		err = client.Delete(ctx, ref)
		if errors.Is(err, errdef.ErrNotFound) {
			err = fault(diag.NoArtifact, ref+" not found", "check the name and the tag; mm registry tags lists them")
		}
		w.Record(ctx, audit.Entry{Action: "unpublish", Ref: ref, Result: Outcome(err)})
		if err != nil {
			return deleted, err
		}
		deleted = append(deleted, ref)
		for _, tag := range also {
			if err := client.Delete(ctx, tag); err != nil {
				return deleted, err
			}
			deleted = append(deleted, tag)
		}
	}
	return deleted, nil
}

// publishedTargets lists the tags of the targets of a build at its registry, TAG-TARGET, as
// far as they name its manifests.
func (w *Workspace) publishedTargets(ctx context.Context, ref string) (out []string) {
	at, err := w.FindRemote(ctx, ref)
	if err != nil || at.remote.Ref.Tag == "" {
		return nil
	}
	id, err := at.identify(ctx)
	if err != nil {
		return nil
	}
	src, ok := at.src.(*remote.Source)
	for _, t := range targetTags(at, at.remote, id) {
		tag := at.remote.Ref.Bare().String() + ":" + t.Ref
		if desc, err := src.Current(ctx, tag); ok && err == nil && desc.Digest == t.Descriptor.Digest {
			out = append(out, tag)
		}
	}
	return out
}

// maxAttached bounds a file to attach, in bytes.
const maxAttached = 1 << 30

// AttachOptions for [Workspace.Attach].
type AttachOptions struct {
	Type      string // the artifact type of the referrer
	MediaType string // of the file. Empty: Type
}

// Attach adds a file to an artifact at a registry as a referrer (image-spec 1.1): an SBOM, a
// report, a README. The artifact does not change.
func (w *Workspace) Attach(ctx context.Context, ref, file string, opt AttachOptions) (*Pushed, error) {
	if opt.Type == "" {
		return nil, errors.New("missing type of the referrer, such as application/spdx+json")
	}
	if err := attachable(file); err != nil {
		return nil, err
	}
	at, err := w.FindRemote(ctx, ref)
	if err != nil {
		return nil, err
	}
	if err := w.recordable(ctx); err != nil {
		return nil, err
	}
	s, err := w.store()
	if err != nil {
		return nil, err
	}
	layer, err := s.AddFile(ctx, file, cas.AddOptions{MediaType: cmp.Or(opt.MediaType, opt.Type)})
	if err != nil {
		return nil, err
	}
	layer.Annotations = map[string]string{ocispec.AnnotationTitle: filepath.Base(file)}
	config, err := s.AddBytes(ctx, ocispec.MediaTypeEmptyJSON, ocispec.DescriptorEmptyJSON.Data)
	if err != nil {
		return nil, err
	}
	subject := at.desc
	data, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: opt.Type,
		Config: config, Layers: []ocispec.Descriptor{layer}, Subject: &ocispec.Descriptor{MediaType: subject.MediaType, Digest: subject.Digest, Size: subject.Size},
	})
	if err != nil {
		return nil, err
	}
	desc, err := s.AddBytes(ctx, ocispec.MediaTypeImageManifest, data)
	if err != nil {
		return nil, err
	}
	client, err := w.client()
	if err != nil {
		return nil, err
	}
	place := at.remote.Ref.Bare().String()
	report, err := client.Attach(ctx, s, desc, place)
	w.Record(ctx, audit.Entry{Action: "attach", Ref: ref, Digest: desc.Digest.String(), Result: Outcome(err)})
	if err != nil {
		return nil, err
	}
	return &Pushed{Ref: place, Digest: desc.Digest.String(), Report: report}, nil
}

// online returns the client for an argument at a registry.
func (w *Workspace) online(arg string) (*remote.Client, error) {
	if w.opt.Offline {
		return nil, fault(diag.Offline, arg, "run it without --offline")
	}
	return w.client()
}

// CopyOptions for [Workspace.Copy].
type CopyOptions struct {
	Claim
	Force bool // move the tag of a version from other bytes
}

// Copy sends an artifact from one registry to another with the same digests: all targets,
// signatures and other referrers. The source is verified as in a pull, the destination is
// checked as in a push. The bytes pass through the store without a name.
func (w *Workspace) Copy(ctx context.Context, from, to string, opt CopyOptions) (*Pushed, error) {
	at, err := w.FindPublished(ctx, from)
	if err != nil {
		return nil, err
	}
	j, err := w.Judge(ctx, at, opt.Claim)
	if err != nil {
		return nil, err
	}
	dest, err := w.destination(to, j.Identity, PushOptions{Expect: opt.Expect, Force: opt.Force})
	if err != nil {
		return nil, err
	}
	if err := w.recordable(ctx); err != nil {
		return nil, err
	}
	into, err := w.store()
	if err != nil {
		return nil, err
	}
	client, err := w.client()
	if err != nil {
		return nil, err
	}
	move := remote.PullOptions{Tree: at.tree, AllReferrers: true, Link: true}
	move.Source, _ = at.src.(*remote.Source)
	if _, _, err := client.Pull(ctx, at.pinned(), into, move); err != nil {
		return nil, err
	}
	if err := intact(ctx, into, at.tree, move); err != nil {
		return nil, explainBytes(err, into)
	}
	if err := checkClaims(ctx, into, at.ref, at.tree, ""); err != nil {
		return nil, err
	}
	if err := at.unmoved(ctx); err != nil {
		return nil, err
	}
	push := remote.PushOptions{Also: targetTags(at, dest, j.Identity), Force: opt.Force, Memory: w.memory()}
	if dest.Ref.Host == at.remote.Ref.Host {
		push.MountFrom = []string{at.remote.Ref.FullName()}
	}
	report, err := client.Push(ctx, into, at.desc, dest.String(), push)
	w.Record(ctx, audit.Entry{Action: "copy", Ref: dest.String(), Digest: j.Digest, Keys: ids(j.Keys), Result: Outcome(err)})
	if err != nil {
		return nil, err
	}
	return &Pushed{Ref: dest.String(), Digest: j.Digest, Report: report}, nil
}

// attachable refuses other things than files, and files over the limit.
func attachable(file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: not a file", file)
	}
	if info.Size() > maxAttached {
		return fmt.Errorf("%s: got %d bytes, limit %d", file, info.Size(), int64(maxAttached))
	}
	return nil
}

// Change is a file that differs between two artifacts.
type Change struct {
	Target string `json:"target,omitempty"`
	Path   string `json:"path"`
	Old    string `json:"old,omitempty"` // digest; empty: added
	New    string `json:"new,omitempty"` // digest; empty: removed
	Was    int64  `json:"was,omitempty"` // bytes
	Is     int64  `json:"is,omitempty"`  // bytes
}

// Diff compares the files of two artifacts by their manifests, each in the store or at a
// registry. Nothing of them is verified.
func (w *Workspace) Diff(ctx context.Context, a, b string) ([]Change, error) {
	var sides [2]map[string]Change
	for i, arg := range []string{a, b} {
		at, err := w.Find(ctx, arg)
		if err != nil {
			return nil, err
		}
		v, err := w.Inspect(ctx, at)
		if err != nil {
			return nil, err
		}
		sides[i] = map[string]Change{}
		for _, part := range append([]View{v}, v.Targets...) {
			for _, l := range part.Layers {
				sides[i][path.Join(part.Target, l.Path)] = Change{Target: part.Target, Path: l.Path, New: l.Digest, Is: l.Size}
			}
		}
	}
	out := []Change{}
	for key, was := range sides[0] {
		is := sides[1][key]
		if is.New != was.New {
			out = append(out, Change{was.Target, was.Path, was.New, is.New, was.Is, is.Is})
		}
	}
	for key, is := range sides[1] {
		if _, ok := sides[0][key]; !ok {
			out = append(out, is)
		}
	}
	slices.SortFunc(out, func(x, y Change) int { return strings.Compare(x.Target+"\x00"+x.Path, y.Target+"\x00"+y.Path) })
	return out, nil
}

// Kind returns added, removed or changed.
func (c Change) Kind() string {
	switch {
	case c.Old == "":
		return "added"
	case c.New == "":
		return "removed"
	}
	return "changed"
}

// String returns the path with its target.
func (c Change) String() string {
	if c.Target == "" {
		return c.Path
	}
	return fmt.Sprintf("%s/%s", c.Target, c.Path)
}
