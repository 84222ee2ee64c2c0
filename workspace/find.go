package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/remote"
	"mm-abi.org/mm/workspace/home"
	"mm-abi.org/mm/workspace/loose"
)

// Located is an artifact that an argument means. Nothing of it has been checked.
type Located struct {
	ref        string // as the user wrote it
	desc       ocispec.Descriptor
	src        content.ReadOnlyGraphStorage
	store      *registry.Store // nil at a registry
	remote     remote.Reference
	repository string  // whose trust rules apply; empty: that of the artifact's own name
	name       string  // the name that the reference promises; empty: none
	tag        string  // the tag that it promises; empty: none
	alias      bool    // name and repository are the user's word
	origins    []Alias // of a digest: where the store's names of it were pulled from
	target     string  // chosen by DIR/TARGET, or in a pull
	folder     string  // DIR/TARGET itself, whose files must be those of the artifact
	ranged     bool    // the newest that a range or a bare name allowed at the registry

	now func(context.Context) (ocispec.Descriptor, error) // resolves the reference again; nil for a digest

	tree     *artifact.Tree // its manifests, once identify has read them
	identity artifact.Identity
}

// Ref is the argument as the user wrote it.
func (l *Located) Ref() string { return l.ref }

// Descriptor is the manifest or index that was found.
func (l *Located) Descriptor() ocispec.Descriptor { return l.desc }

// Store holds the artifact; nil for one at a registry.
func (l *Located) Store() *registry.Store { return l.store }

// Remote reports whether the artifact is at a registry.
func (l *Located) Remote() bool { return l.store == nil }

// Find parses an argument and finds its artifact:
//
//	p-lite:0.1.0, p-lite@^0.1, p-lite, sha256:…    in the store (or the layout of the options); without a version the newest
//	0.1.0                                          in the layout of the options, which holds one name
//	dist/p-lite, dist/p-lite@0.1.0                 an OCI layout, its newest build or that one
//	dist/p-lite/laptop                             a target's folder in one
//	oci:dist/p-lite:p-lite:0.1.0                   a reference name in a layout
//	registry.example/team/p-lite:0.1.0             in the store, or else at the registry
//	registry.example/team/p-lite@^0.1              likewise, the newest such version
//
// If there is none, the error is diag.NoArtifact.
func (w *Workspace) Find(ctx context.Context, arg string) (*Located, error) {
	if arg == "" {
		return nil, diag.Usagef("empty reference, want NAME:VERSION, a digest or a folder")
	}
	if rest, ok := strings.CutPrefix(arg, "oci:"); ok {
		return w.findEntry(ctx, arg, rest)
	}
	if w.opt.Layout == "" {
		if l, err := w.findFolder(ctx, arg); l != nil || err != nil {
			return l, err
		}
	}
	if w.opt.Layout != "" || w.hasStore() { // none is made to look into
		l, err := w.findStored(ctx, arg)
		if !errors.Is(err, errdef.ErrNotFound) {
			return l, err
		}
	}
	if ref, bad := abi.ParseRef(arg); bad == nil && ref.Host != "" && w.opt.Layout == "" && !w.opt.Offline {
		return w.FindPublished(ctx, arg)
	}
	return nil, w.absent(ctx, arg)
}

// FindPublished finds a reference at its registry, whatever the store has. Without a tag and
// a digest it is the newest version that the reference allows.
func (w *Workspace) FindPublished(ctx context.Context, arg string) (*Located, error) {
	ref, err := abi.ParseRef(arg)
	if err != nil || ref.Host == "" || ref.Tag != "" || ref.Digest != "" || w.opt.Offline {
		return w.FindRemote(ctx, arg)
	}
	if err := remote.CheckSpelling(arg); err != nil {
		return nil, err
	}
	client, err := w.client()
	if err != nil {
		return nil, err
	}
	tags, err := client.Tags(ctx, ref.Bare().String())
	if err != nil {
		return nil, err
	}
	for _, tag := range candidates(ref, tags) {
		l, err := w.FindRemote(ctx, ref.Tagged(tag).String())
		if isAbsent(err) {
			continue // deleted since it was listed, or listed without a manifest
		}
		if err != nil {
			return nil, err
		}
		if id, err := l.identify(ctx); err != nil || abi.TagMeaning(tag, id.Version, id.Target) != abi.MeansTarget {
			l.ranged = true
			return l, nil
		}
	}
	return nil, w.unpublished(arg, ref, tags)
}

// isAbsent reports an error that is diag.NoArtifact.
func isAbsent(err error) bool {
	list, ok := diag.From(err)
	return ok && list[0].Code == diag.NoArtifact
}

// maxCandidates bounds the tags of a repository that are tried for a range.
const maxCandidates = 100

// candidates returns the tags of versions that a reference allows, the newest first, or
// latest if no version is tagged and any is allowed.
func candidates(ref abi.Ref, tags []string) (found []string) {
	for _, tag := range tags {
		if v, err := abi.TagVersion(tag); err == nil && ref.Allows(v) {
			found = append(found, tag)
		}
	}
	slices.SortStableFunc(found, newestFirst)
	if len(found) == 0 && ref.Constraint == "" && slices.Contains(tags, "latest") {
		found = []string{"latest"}
	}
	return found[:min(len(found), maxCandidates)]
}

// unpublished reports a repository without a version that a reference allows.
func (w *Workspace) unpublished(arg string, ref abi.Ref, tags []string) error {
	place := ref.Bare().String()
	if len(tags) == 0 {
		return fault(diag.NoArtifact, place+" has no tags, or does not exist", "mm registry ls HOST lists repositories")
	}
	slices.SortStableFunc(tags, newestFirst)
	some := strings.Join(tags[:min(len(tags), 5)], ", ")
	return fault(diag.NoArtifact, fmt.Sprintf("%s: no tag is such a version: %s has %d tags: %s", arg, place, len(tags), some), "write "+place+":TAG; mm registry tags "+place+" lists the tags")
}

// FindRemote finds a tag or digest at its registry, whatever the store has.
func (w *Workspace) FindRemote(ctx context.Context, arg string) (*Located, error) {
	ref, err := remote.ParseReference(arg)
	if err != nil {
		return nil, err
	}
	if ref.Layout != "" {
		return nil, &remote.ReferenceError{Ref: arg, Err: fmt.Errorf("%w: %s names a layout, want a registry", errdef.ErrInvalidReference, arg)}
	}
	if w.opt.Offline {
		return nil, fault(diag.Offline, arg, "run it without --offline, or mm pull it before")
	}
	client, err := w.client()
	if err != nil {
		return nil, err
	}
	src, err := client.Source(ref.Place())
	if err != nil {
		return nil, err
	}
	if l, err := w.findChannel(ctx, arg, ref); l != nil || err != nil {
		return l, err
	}
	desc, err := src.Find(ctx, arg)
	if errors.Is(err, errdef.ErrNotFound) {
		return nil, fault(diag.NoArtifact, arg+" not found", "check the name and the tag")
	}
	if err != nil {
		return nil, err
	}
	now := func(ctx context.Context) (ocispec.Descriptor, error) { return src.Current(ctx, arg) }
	l := &Located{ref: arg, desc: desc, src: src, remote: ref, repository: ref.Ref.Repository(), name: ref.Ref.Name, tag: ref.Ref.Tag, now: now}
	if ref.Ref.Digest != "" {
		l.now = nil
	}
	return l, nil
}

// findStored finds arg in the store. If there is none, the error is
// errdef.ErrNotFound.
func (w *Workspace) findStored(ctx context.Context, arg string) (*Located, error) {
	s, err := w.store()
	if err != nil {
		return nil, err
	}
	entry := arg
	desc, err := s.Resolve(ctx, arg)
	if errors.Is(err, errdef.ErrNotFound) {
		entry, desc, err = w.search(ctx, s, arg)
	}
	if err != nil {
		return nil, err
	}
	l := inStore(s, arg, entry, desc)
	if l.repository == "" && w.opt.Layout == "" {
		l.origins, err = w.origins(ctx, s, desc)
		return l, err
	}
	if a, ok, err := w.alias(entry); err != nil {
		return nil, err
	} else if ok {
		l.repository, l.name, l.alias = a.Repository, a.Name, true
		if a.Version != "" {
			l.tag = abi.VersionTag(a.Version)
		}
	}
	return l, nil
}

// inStore returns the location of a store's entry.
func inStore(s *registry.Store, arg, entry string, desc ocispec.Descriptor) *Located {
	l := &Located{ref: arg, desc: desc, src: s, store: s}
	ref, err := abi.ParseRef(entry)
	switch {
	case err != nil, ref.Name == "": // another tool's name, or a digest: the manifest decides
	case ref.Tag == "" && ref.Digest == "":
		l.tag = entry // a layout's bare version
	default:
		l.repository, l.name, l.tag = ref.Repository(), ref.Name, ref.Tag
	}
	if err != nil || ref.Digest == "" {
		l.now = func(ctx context.Context) (ocispec.Descriptor, error) { return s.Resolve(ctx, entry) }
	}
	return l
}

// search returns the newest version that a reference without a tag allows and,
// in a layout, the entry with a bare version.
func (w *Workspace) search(ctx context.Context, s *registry.Store, arg string) (entry string, desc ocispec.Descriptor, err error) {
	none := fmt.Errorf("%s: %w", arg, errdef.ErrNotFound)
	if v, err := abi.ParseVersion(arg); err == nil && w.opt.Layout != "" {
		b, err := newest(ctx, s, w.opt.Layout, "", func(have *semver.Version) bool { return have.String() == v.String() })
		if err != nil {
			return "", desc, err
		}
		return b.entry, b.desc, nil
	}
	ref, bad := abi.ParseRef(arg)
	if bad != nil || ref.Tag != "" || ref.Digest != "" {
		return "", desc, none
	}
	b, err := newest(ctx, s, arg, ref.Bare().String(), ref.Allows)
	if err != nil {
		return "", desc, err
	}
	return b.entry, b.desc, nil
}

// named is one complete build or module of a store.
type named struct {
	entry   string
	place   string // without the tag; empty: the entry is a bare version
	tag     string
	version *semver.Version
	desc    ocispec.Descriptor
}

// newest returns the newest version that allow accepts among the entries of
// place. If place is empty, the entries must be of one place. Tags of single
// targets and channels do not count. If there is none, the error is
// errdef.ErrNotFound.
//
// Manifests are read from the newest entry on, and only of entries with a
// fitting name and tag: a store may hold thousands of others.
func newest(ctx context.Context, s *registry.Store, where, place string, allow func(*semver.Version) bool) (named, error) {
	tags, err := s.Tags(ctx)
	if err != nil {
		return named{}, err
	}
	var found []named
	for _, t := range tags {
		if n, ok := versioned(t); ok && (place == "" || n.place == place) && allow(n.version) {
			found = append(found, n)
		}
	}
	slices.SortStableFunc(found, func(a, b named) int { return abi.CompareVersions(a.version, b.version) })
	if place != "" {
		i := slices.IndexFunc(found, func(n named) bool { return n.isVersion(ctx, s) })
		if i < 0 {
			return named{}, fmt.Errorf("%s: %w", where, errdef.ErrNotFound)
		}
		return found[i], nil
	}
	found = slices.DeleteFunc(found, func(n named) bool { return !n.isVersion(ctx, s) })
	if len(found) == 0 {
		return named{}, fmt.Errorf("%s: %w", where, errdef.ErrNotFound)
	}
	if names := placesOf(found); len(names) > 1 {
		return named{}, diag.Hinted(fmt.Errorf("%s holds builds of %d names: %s", where, len(names), strings.Join(names, ", ")), "name one: --layout DIR NAME:VERSION; mm ls --layout DIR lists them")
	}
	return found[0], nil
}

// placesOf lists the different names, sorted.
func placesOf(found []named) []string {
	var names []string
	for _, n := range found {
		if n.place != "" {
			names = append(names, n.place)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// versioned reads place and version from an entry's name. It reports false for a
// tag without a version.
func versioned(t registry.Tag) (named, bool) {
	n := named{entry: t.Ref, tag: t.Ref, desc: t.Descriptor}
	if ref, err := abi.ParseRef(t.Ref); err == nil && ref.Tag != "" {
		n.place, n.tag = ref.Bare().String(), ref.Tag
	}
	var err error
	n.version, err = abi.TagVersion(n.tag)
	return n, err == nil
}

// isVersion reports whether the tag is the version of the complete artifact, not
// of one of its targets.
func (n named) isVersion(ctx context.Context, s *registry.Store) bool {
	id, err := (&Located{ref: n.entry, desc: n.desc, src: s}).identify(ctx)
	return err == nil && abi.TagMeaning(n.tag, id.Version, id.Target) == abi.MeansVersion
}

// openLayout opens a layout for reading, until the workspace is closed.
func (w *Workspace) openLayout(dir string) (*registry.Store, error) {
	s, err := registry.Open(dir, registry.Options{MustExist: true, ReadOnly: true})
	if err == nil {
		w.later(s.Close)
	}
	return s, err
}

// findEntry finds DIR[:NAME][@DIGEST] of oci:….
func (w *Workspace) findEntry(ctx context.Context, arg, rest string) (*Located, error) {
	ref, err := remote.ParseReference(arg)
	if err != nil {
		return nil, err
	}
	if ref.Entry == "" && ref.Ref.Digest == "" {
		l, err := w.findFolder(ctx, rest)
		if l == nil && err == nil {
			err = fault(diag.NoArtifact, fmt.Sprintf("no OCI layout at %s: no file %s in it", rest, ocispec.ImageLayoutFile), "mm push REF oci:DIR makes one")
		}
		return l, err
	}
	s, err := w.openLayout(ref.Layout)
	if err != nil {
		return nil, err
	}
	entry := ref.Entry
	if ref.Ref.Digest != "" {
		entry = ref.Ref.Digest
	}
	desc, err := s.Resolve(ctx, entry)
	if v, bad := abi.ParseVersion(entry); errors.Is(err, errdef.ErrNotFound) && bad == nil {
		var n named
		n, err = newest(ctx, s, ref.Layout, "", func(have *semver.Version) bool { return have.String() == v.String() })
		entry, desc = n.entry, n.desc
	}
	if errors.Is(err, errdef.ErrNotFound) {
		return nil, fault(diag.NoArtifact, fmt.Sprintf("%s is not in %s", ref.Entry+ref.Ref.Digest, ref.Layout), "mm ls --layout "+ref.Layout+" lists what is there")
	}
	if err != nil {
		return nil, err
	}
	return inStore(s, arg, entry, desc), nil
}

// findFolder finds DIR, DIR@VERSION and DIR/TARGET; it returns nil for other
// arguments.
func (w *Workspace) findFolder(ctx context.Context, arg string) (*Located, error) {
	dir, want := arg, ""
	info, err := os.Stat(arg)
	if at := strings.LastIndexByte(arg, '@'); err != nil && at > 0 {
		dir, want = arg[:at], arg[at+1:]
		info, err = os.Stat(dir)
	}
	if err != nil || !info.IsDir() {
		return nil, nil
	}
	if loose.IsLayout(dir) {
		return w.findBuild(ctx, arg, dir, want)
	}
	if want != "" {
		return nil, nil
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if loose.IsLayout(filepath.Dir(abs)) {
		return w.findTarget(ctx, arg, abs)
	}
	if home.Exists(filepath.Join(dir, builds.AssemblyFile)) {
		return nil, w.torn(ctx, dir)
	}
	return nil, nil
}

// findBuild finds the newest build of a layout that want allows.
func (w *Workspace) findBuild(ctx context.Context, arg, dir, want string) (*Located, error) {
	s, err := w.openLayout(dir)
	if err != nil {
		return nil, err
	}
	allow := func(*semver.Version) bool { return true }
	if want != "" {
		ref, err := abi.ParseRef("build@" + want)
		if err != nil {
			return nil, fmt.Errorf("%s: invalid version %q", arg, want)
		}
		allow = ref.Allows
	}
	n, err := newest(ctx, s, dir, "", allow)
	if errors.Is(err, errdef.ErrNotFound) {
		return nil, fault(diag.NoArtifact, arg+" holds no such build"+whyNone(ctx, s), "mm ls --layout "+dir+" lists what is there")
	}
	if err != nil {
		return nil, err
	}
	l := inStore(s, arg, n.entry, n.desc)
	l.repository, l.name = "", "" // a folder does not imply a name
	return l, nil
}

// whyNone describes why a layout holds no build: nothing has a name, or an entry that
// cannot be read.
func whyNone(ctx context.Context, s *registry.Store) string {
	tags, err := s.Tags(ctx)
	if err != nil {
		return ": " + err.Error()
	}
	if len(tags) == 0 {
		return ": no entry of its index.json has a name, in the annotation " + ocispec.AnnotationRefName
	}
	for _, t := range tags {
		id, err := artifact.Identify(ctx, s, t.Descriptor)
		if err == nil && id.Version == "" {
			err = errors.New("another tool's artifact: it states no name and version")
		}
		if err != nil {
			return fmt.Sprintf(": %s: %v", t.Ref, err)
		}
	}
	return ""
}

// findTarget finds the build whose target is in the folder dir of a layout, by
// its assembly.
func (w *Workspace) findTarget(ctx context.Context, arg, dir string) (*Located, error) {
	a, err := assemblyIn(dir)
	if err != nil {
		return nil, fault(diag.Tampered, fmt.Sprintf("cannot read the assembly of %s: %v", arg, err), "assemble it again, or use the layout "+filepath.Dir(dir))
	}
	s, err := w.openLayout(filepath.Dir(dir))
	if err != nil {
		return nil, err
	}
	tag := abi.TargetTag(a.Version, filepath.Base(dir))
	for _, entry := range []string{a.Name + ":" + tag, tag} {
		desc, err := s.Resolve(ctx, entry)
		if errors.Is(err, errdef.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		l := inStore(s, arg, entry, desc)
		l.repository, l.name, l.target, l.folder = "", "", filepath.Base(dir), dir
		return l, nil
	}
	return nil, fault(diag.Tampered, fmt.Sprintf("%s holds %s %s, which is missing in its layout", arg, a.Name, a.Version), "assemble it again, or use the layout "+filepath.Dir(dir))
}

// assemblyIn reads the assembly of a target's folder.
func assemblyIn(dir string) (*builds.Assembly, error) {
	data, err := fsx.ReadFile(filepath.Join(dir, builds.AssemblyFile), maxSmall)
	if err != nil {
		return nil, err
	}
	return builds.ParseAssembly(data)
}

// torn refuses a target's folder outside of its layout: the signed manifest is
// missing.
func (w *Workspace) torn(ctx context.Context, dir string) error {
	detail := dir + " holds the files of a build, but not the manifest and the signatures they were released with"
	hint := "use the layout it was copied from, or mm pull REF and then mm run REF; mm push REF oci:DIR makes a layout to carry about"
	a, err := assemblyIn(dir)
	if err != nil {
		return fault(diag.NoArtifact, detail, hint)
	}
	tag := abi.TargetTag(a.Version, a.Target)
	if s, err := w.store(); err == nil {
		if _, err := s.Resolve(ctx, a.Name+":"+tag); err == nil {
			hint = fmt.Sprintf("the store has it: use %s:%s in place of the folder", a.Name, tag)
		}
	}
	return fault(diag.NoArtifact, fmt.Sprintf("%s (%s %s, target %s)", detail, a.Name, a.Version, a.Target), hint)
}
