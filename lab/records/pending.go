package records

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/internal/fsx"
)

// Absent replaces the SHA-256 of a file that does not exist yet.
const Absent = "absent"

// targetKinds are the valid values of UploadTarget.Kind.
var targetKinds = []string{"hf_dataset", "hf_model", "hf_space", "github", "oci", "external"}

// UploadTarget is the destination of an upload.
type UploadTarget struct {
	Kind string `json:"kind"`
	Repo string `json:"repo"`
	Path string `json:"path"` // in the repository, with forward slashes
}

// Upload is a file in the list of pending uploads. mm does not upload it: the list records
// the file, its destination and what blocks it.
type Upload struct {
	ID      string       `json:"id"`     // hex, hash of the file's content and the target
	File    string       `json:"file"`   // absolute
	SHA256  string       `json:"sha256"` // hex, or Absent
	Bytes   int64        `json:"bytes"`
	Target  UploadTarget `json:"target"`
	Licence string       `json:"licence_attestation,omitempty"`
	Blocked string       `json:"blocked_by"`
	Queued  string       `json:"queued_at"` // RFC 3339, set by the caller
}

// UploadItem is an upload and the present state of its file.
type UploadItem struct {
	Upload
	State string `json:"state"` // ready, changed or absent
}

// AddUpload adds a file to the list at path list, by its absolute path. If the same content
// is listed for the same target, it returns that entry. A missing file is an error unless
// absent is set.
func AddUpload(ctx context.Context, list string, u Upload, absent bool) (Upload, error) {
	switch {
	case !slices.Contains(targetKinds, u.Target.Kind):
		return u, fmt.Errorf("unknown target kind %q, want one of %s", u.Target.Kind, strings.Join(targetKinds, ", "))
	case u.Target.Repo == "" || strings.ContainsAny(u.Target.Repo, " \\\n"):
		return u, fmt.Errorf("invalid repository %q", u.Target.Repo)
	case u.Target.Path == "" || path.IsAbs(u.Target.Path) || path.Clean(u.Target.Path) != u.Target.Path || strings.HasPrefix(u.Target.Path, "..") || strings.Contains(u.Target.Path, "\\"):
		return u, fmt.Errorf("invalid repository path %q", u.Target.Path)
	case u.Blocked == "":
		return u, errors.New("missing reason for the block")
	}
	var err error
	if u.File, err = filepath.Abs(u.File); err != nil {
		return u, err
	}
	if u.SHA256, u.Bytes, err = hash(ctx, u.File); err != nil {
		return u, err
	}
	if u.SHA256 == Absent && !absent {
		return u, fmt.Errorf("%s: %w", u.File, fs.ErrNotExist)
	}
	id := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s\n%s\n%s", u.File, u.SHA256, u.Target.Kind, u.Target.Repo, u.Target.Path))
	u.ID = hex.EncodeToString(id[:8])
	err = Update(ctx, list, func(old []Upload) ([]Upload, error) {
		if i := slices.IndexFunc(old, func(x Upload) bool { return x.ID == u.ID }); i >= 0 {
			u = old[i]
			return nil, nil
		}
		return []Upload{u}, nil
	})
	return u, err
}

// Uploads reads the list and compares each file with its recorded digest, so that no file
// that changed since is uploaded.
func Uploads(ctx context.Context, list string) ([]UploadItem, error) {
	uploads, err := ReadExisting[Upload](list)
	if err != nil {
		return nil, err
	}
	var out []UploadItem
	for _, u := range uploads {
		sum, _, err := hash(ctx, u.File)
		if err != nil {
			return nil, err
		}
		i := UploadItem{Upload: u, State: "ready"}
		switch {
		case sum == Absent:
			i.State = Absent
		case sum != u.SHA256:
			i.State = "changed"
		}
		out = append(out, i)
	}
	return out, nil
}

// hash returns the SHA-256 and size of a file, or Absent if it does not exist.
func hash(ctx context.Context, file string) (string, int64, error) {
	f, err := fsx.OpenRegular(file)
	if errors.Is(err, fs.ErrNotExist) {
		return Absent, 0, nil
	}
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	n, digest, err := fsx.DigestOf(fsx.Reader{Context: ctx, R: f})
	return strings.TrimPrefix(digest, "sha256:"), n, err
}
