package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
)

// A store served as a registry shows its blobs through repositories. Which blob
// a repository shows is a small record of its own, so that taking a blob out of
// one repository is immediate there and costs the others nothing; the bytes are
// shared and go by gc. Repositories of local tags need no records: "name:tag"
// shows what it reaches.

// repoPattern is the grammar of repository names (distribution-spec v1.1,
// Pulling manifests).
var repoPattern = regexp.MustCompile(`^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*$`)

// maxRepoName bounds a repository name.
const maxRepoName = 255

// linkDir holds a repository's records; no repository name can contain it.
const linkDir = "_links"

// LinkState says how a repository stands to a blob.
type LinkState int

// The states of a link.
const (
	Unlinked LinkState = iota // never heard of it
	Linked                    // shows it
	Deleted                   // showed it once and must not, even if a tag reaches it
)

// linkRecord is the content of a record.
type linkRecord struct {
	MediaType string `json:"mediaType,omitempty"`
	Size      int64  `json:"size,omitempty"`
	Deleted   bool   `json:"deleted,omitempty"`
}

// ValidRepo tells whether name can be a repository's.
func ValidRepo(name string) bool { return len(name) <= maxRepoName && repoPattern.MatchString(name) }

func linkName(repo string, d digest.Digest) (string, error) {
	if !ValidRepo(repo) {
		return "", fmt.Errorf("repository %q: %w", shorten(repo), errdef.ErrInvalidReference)
	}
	if err := checkDigest(d); err != nil {
		return "", err
	}
	return repoDir + "/" + repo + "/" + linkDir + "/" + flatName(d), nil
}

// Link makes the repository show the blob desc, which must be in the store. A
// manifest without subject is kept from gc by its link.
func (s *Store) Link(ctx context.Context, repo string, desc ocispec.Descriptor) error {
	lock, err := s.dir.RLock(ctx, gcLock)
	if err != nil {
		return fmt.Errorf("link %s: %w", desc.Digest, err)
	}
	defer lock.Unlock()
	ok, err := s.has(desc)
	if err == nil && !ok {
		err = errdef.ErrNotFound
	}
	if err == nil && IsManifest(desc.MediaType) {
		err = s.Walk(ctx, desc, s.present)
	}
	if err == nil {
		err = s.mark(desc.Digest)
	}
	if err == nil {
		err = s.writeLink(repo, desc.Digest, linkRecord{MediaType: desc.MediaType, Size: desc.Size})
	}
	if err != nil {
		return fmt.Errorf("link %s into %s: %w", desc.Digest, shorten(repo), err)
	}
	return nil
}

// Unlink makes the repository no longer show the blob, whatever reaches it.
func (s *Store) Unlink(ctx context.Context, repo string, d digest.Digest) error {
	if err := s.writeLink(repo, d, linkRecord{Deleted: true}); err != nil {
		return fmt.Errorf("unlink %s from %s: %w", d, shorten(repo), err)
	}
	return ctx.Err()
}

func (s *Store) writeLink(repo string, d digest.Digest, rec linkRecord) error {
	if err := s.writable(); err != nil {
		return err
	}
	name, err := linkName(repo, d)
	if err != nil {
		return err
	}
	if err := s.dir.MkdirAll(repoDir+"/"+repo+"/"+linkDir, 0o755); err != nil {
		return err
	}
	data, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	return s.dir.WriteFile(name, data, 0o644)
}

// Linked tells how the repository stands to the blob d, and what it is.
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
		return ocispec.Descriptor{}, Unlinked, fmt.Errorf("link of %s in %s: %w", d, shorten(repo), err)
	}
	if rec.Deleted {
		return ocispec.Descriptor{}, Deleted, nil
	}
	return ocispec.Descriptor{MediaType: rec.MediaType, Digest: d, Size: rec.Size}, Linked, nil
}

func (s *Store) readLink(name string) (rec linkRecord, err error) {
	data, err := s.readSmall(name, 64<<10)
	if err != nil {
		return rec, err
	}
	if err := json.Unmarshal(data, &rec); err != nil {
		return rec, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return rec, nil
}

// Repos lists the repositories that tags or links make up, sorted.
func (s *Store) Repos(ctx context.Context) ([]string, error) {
	idx, err := s.readIndex()
	if err != nil {
		return nil, fmt.Errorf("list repositories: %w", err)
	}
	seen := map[string]bool{}
	for ref := range idx.entries {
		if i := strings.LastIndexByte(ref, ':'); i > 0 && ValidRepo(ref[:i]) {
			seen[ref[:i]] = true
		}
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

// eachLink calls fn for every link record, of whatever state.
func (s *Store) eachLink(fn func(repo, name string, d digest.Digest) error) error {
	fsys := s.dir.Root().FS()
	err := fs.WalkDir(fsys, repoDir, func(name string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile, or no repository yet
		}
		if err != nil || e.IsDir() {
			return err
		}
		dir, base := name[:strings.LastIndexByte(name, '/')], name[strings.LastIndexByte(name, '/')+1:]
		repo, ok := strings.CutSuffix(dir, "/"+linkDir)
		repo, inside := strings.CutPrefix(repo, repoDir+"/")
		d := digest.Digest(strings.Replace(base, "-", ":", 1))
		if !ok || !inside || checkDigest(d) != nil {
			return nil
		}
		return fn(repo, filepath.ToSlash(name), d)
	})
	return err
}
