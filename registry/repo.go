package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/cas"
)

// A store served as a registry shows its blobs through repositories. A small
// record for each blob and repository makes deleting a blob from one
// repository immediate and free for the others; the bytes are shared and
// removed by gc. Repositories of local tags need no records: "name:tag" shows
// all it reaches.

// The folders of records; no repository name can contain them.
const (
	linkDir    = "_links"                   // in a repository's folder
	confineDir = cas.RepoDir + "/_confined" // of referrers that only their own repositories show
)

// LinkState is the state of a blob in a repository.
type LinkState int

// The states of a link.
const (
	Unlinked LinkState = iota // unknown to the repository
	Linked                    // shows it
	Deleted                   // showed it once and must not, even if a tag reaches it
)

// linkRecord is the content of a record.
type linkRecord struct {
	MediaType string `json:"mediaType,omitempty"`
	Size      int64  `json:"size,omitempty"`
	Deleted   bool   `json:"deleted,omitempty"`
}

// ValidRepo reports whether name is a valid repository name.
func ValidRepo(name string) bool { return abi.ValidRepository(name) }

// Confine makes only the repositories that link to the referrer desc show it. A
// referrer that the store has is unchanged: it was added locally, and is visible
// wherever its subject is. It must be called before the referrer is pushed.
func (s *Store) Confine(ctx context.Context, desc ocispec.Descriptor) error {
	err := s.writable()
	if err == nil {
		err = artifact.CheckDigest(desc.Digest)
	}
	if err == nil {
		var present bool
		if err := s.names.View(func(idx *nameIndex) error { present = len(idx.Digests[desc.Digest]) > 0; return nil }); err != nil || present {
			return err
		}
		err = s.dir.MkdirAll(confineDir, 0o755)
	}
	if err == nil {
		err = s.dir.WriteFile(confineName(desc.Digest), nil, 0o644)
	}
	if err != nil {
		return fmt.Errorf("confine %s: %w", desc.Digest, err)
	}
	return ctx.Err()
}

func confineName(d digest.Digest) string {
	return confineDir + "/" + strings.Replace(string(d), ":", "-", 1)
}

// confined reports whether only the repositories that link to d show it.
func (s *Store) confined(d digest.Digest) bool {
	_, err := s.dir.Root().Lstat(filepath.FromSlash(confineName(d)))
	return err == nil
}

func linkName(repo string, d digest.Digest) (string, error) {
	if !ValidRepo(repo) {
		return "", fmt.Errorf("repository %q: %w", artifact.Shorten(repo), errdef.ErrInvalidReference)
	}
	if err := artifact.CheckDigest(d); err != nil {
		return "", err
	}
	return cas.RepoDir + "/" + repo + "/" + linkDir + "/" + strings.Replace(string(d), ":", "-", 1), nil
}

// Link makes the repository show the blob desc, which must be in the store.
// The link protects a manifest without subject from gc.
func (s *Store) Link(ctx context.Context, repo string, desc ocispec.Descriptor) error {
	lock, err := s.dir.RLock(ctx, cas.GCLock)
	if err != nil {
		return fmt.Errorf("link %s: %w", desc.Digest, err)
	}
	defer lock.Unlock()
	ok, err := s.Has(desc)
	if err == nil && !ok {
		err = errdef.ErrNotFound
	}
	if err == nil && artifact.IsManifest(desc.MediaType) {
		err = s.Walk(ctx, desc, s.present)
	}
	if err == nil {
		err = s.Mark(desc.Digest)
	}
	// The same bytes may arrive as a manifest and then as a blob; a blob shown
	// as a manifest remains one.
	if old, state, _ := s.Linked(ctx, repo, desc.Digest); err == nil && state == Linked && artifact.IsManifest(old.MediaType) && !artifact.IsManifest(desc.MediaType) {
		return nil
	}
	if err == nil {
		err = s.writeLink(repo, desc.Digest, linkRecord{MediaType: desc.MediaType, Size: desc.Size})
	}
	if err != nil {
		return fmt.Errorf("link %s into %s: %w", desc.Digest, artifact.Shorten(repo), err)
	}
	return nil
}

// Unlink hides the blob from the repository, even if a tag reaches it.
func (s *Store) Unlink(ctx context.Context, repo string, d digest.Digest) error {
	if err := s.writeLink(repo, d, linkRecord{Deleted: true}); err != nil {
		return fmt.Errorf("unlink %s from %s: %w", d, artifact.Shorten(repo), err)
	}
	return ctx.Err()
}

// revive clears the deleted state of all that desc reaches: a new tag shows it
// again.
func (s *Store) revive(ctx context.Context, repo string, desc ocispec.Descriptor) error {
	if _, err := s.dir.Root().Stat(filepath.FromSlash(cas.RepoDir + "/" + repo)); err != nil {
		return nil
	}
	return s.Walk(ctx, desc, func(d ocispec.Descriptor) error {
		if _, state, err := s.Linked(ctx, repo, d.Digest); err != nil || state != Deleted {
			return err
		}
		name, err := linkName(repo, d.Digest)
		if err != nil {
			return err
		}
		return cas.IgnoreMissing(s.dir.Remove(name))
	})
}

func (s *Store) writeLink(repo string, d digest.Digest, rec linkRecord) error {
	if err := s.writable(); err != nil {
		return err
	}
	name, err := linkName(repo, d)
	if err != nil {
		return err
	}
	if err := s.dir.MkdirAll(cas.RepoDir+"/"+repo+"/"+linkDir, 0o755); err != nil {
		return err
	}
	data, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	return s.dir.WriteFile(name, data, 0o644)
}

// Linked returns the state of the blob d in the repository, and its
// descriptor.
func (s *Store) Linked(ctx context.Context, repo string, d digest.Digest) (ocispec.Descriptor, LinkState, error) {
	name, err := linkName(repo, d)
	if err != nil {
		return ocispec.Descriptor{}, Unlinked, err
	}
	rec, err := s.readLink(name)
	if errors.Is(err, fs.ErrNotExist) {
		return ocispec.Descriptor{}, Unlinked, ctx.Err()
	}
	if err != nil {
		return ocispec.Descriptor{}, Unlinked, fmt.Errorf("link of %s in %s: %w", d, artifact.Shorten(repo), err)
	}
	if rec.Deleted {
		return ocispec.Descriptor{}, Deleted, nil
	}
	return ocispec.Descriptor{MediaType: rec.MediaType, Digest: d, Size: rec.Size}, Linked, nil
}

func (s *Store) readLink(name string) (rec linkRecord, err error) {
	data, err := cas.ReadFile(s.dir, name, 64<<10)
	if err != nil {
		return rec, err
	}
	if err := json.Unmarshal(data, &rec); err != nil {
		return rec, fmt.Errorf("%w: %w", artifact.ErrCorrupt, err)
	}
	return rec, nil
}

// Shows reports whether the repository shows the blob d, and returns its
// descriptor. It does because of a link, or because a tag of the repository
// reaches d or the subject of d: a signature is visible wherever its subject
// is, unless a client pushed it to another repository ([Store.Confine]).
func (s *Store) Shows(ctx context.Context, repo string, d digest.Digest) (ocispec.Descriptor, bool, error) {
	desc, state, err := s.Linked(ctx, repo, d)
	if err != nil || state == Deleted {
		return ocispec.Descriptor{}, false, err
	}
	if state == Unlinked {
		reached := false
		err := s.withGraph(ctx, func(g *graph, idx *nameIndex) error {
			if reached = g.shown(idx, repo, d); reached {
				desc, reached = s.described(g, idx, d)
			}
			return nil
		})
		if err != nil || !reached {
			return ocispec.Descriptor{}, false, err
		}
	}
	ok, err := s.Has(desc)
	return desc, ok, err
}

// Repos lists the repositories with tags or links, sorted.
func (s *Store) Repos(ctx context.Context) ([]string, error) {
	seen := map[string]bool{}
	err := s.names.View(func(idx *nameIndex) error {
		for repo := range idx.Repos {
			seen[repo] = true
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list repositories: %w", err)
	}
	err = s.eachLink(func(repo, _ string, _ digest.Digest) error {
		seen[repo] = true
		return ctx.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list repositories: %w", err)
	}
	var repos []string
	for repo := range seen {
		repos = append(repos, repo)
	}
	slices.Sort(repos)
	return repos, nil
}

// HasRepo reports whether the repository has a tag or a link.
func (s *Store) HasRepo(ctx context.Context, repo string) (bool, error) {
	if !ValidRepo(repo) {
		return false, nil
	}
	tagged := false
	err := s.names.View(func(idx *nameIndex) error { tagged = len(idx.Repos[repo]) > 0; return nil })
	if tagged || err != nil {
		return tagged, err
	}
	entries, err := cas.ReadDir(s.dir, cas.RepoDir+"/"+repo+"/"+linkDir)
	return len(entries) > 0, errors.Join(err, ctx.Err())
}

// eachLink calls fn for every link record, of whatever state.
func (s *Store) eachLink(fn func(repo, name string, d digest.Digest) error) error {
	fsys := s.dir.Root().FS()
	err := fs.WalkDir(fsys, cas.RepoDir, func(name string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile, or no repository yet
		}
		if err != nil || e.IsDir() {
			return err
		}
		dir, base := name[:strings.LastIndexByte(name, '/')], name[strings.LastIndexByte(name, '/')+1:]
		repo, ok := strings.CutSuffix(dir, "/"+linkDir)
		repo, inside := strings.CutPrefix(repo, cas.RepoDir+"/")
		d := digest.Digest(strings.Replace(base, "-", ":", 1))
		if !ok || !inside || artifact.CheckDigest(d) != nil {
			return nil
		}
		return fn(repo, filepath.ToSlash(name), d)
	})
	return err
}
