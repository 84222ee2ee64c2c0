// Package pending keeps the list of files that wait to be uploaded, with what
// they were when they were put on it.
//
// mm uploads nothing from it: the list says what, where to, and what is in the
// way. [List] compares each file with what was noted, so that nothing goes out
// that was changed since.
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

// Absent is noted in the place of the SHA-256 of a file that is not there yet.
const Absent = "absent"

// The kinds of targets.
var targetKinds = []string{"hf_dataset", "hf_model", "hf_space", "github", "oci", "external"}

// Target is where a file shall go.
type UploadTarget struct {
	Kind string `json:"kind"`
	Repo string `json:"repo"`
	Path string `json:"path"` // in the repository, with forward slashes
}

// Upload is a file that waits.
type Upload struct {
	ID      string       `json:"id"`     // hex, of the file's content and the target
	File    string       `json:"file"`   // absolute
	SHA256  string       `json:"sha256"` // hex, or Absent
	Bytes   int64        `json:"bytes"`
	Target  UploadTarget `json:"target"`
	Licence string       `json:"licence_attestation,omitempty"`
	Blocked string       `json:"blocked_by"`
	Queued  string       `json:"queued_at"` // RFC 3339, the caller's
}

// Item is an upload and how its file is now.
type UploadItem struct {
	Upload
	State string `json:"state"` // ready, changed, absent
}

// Add notes a file in the list at path, by its absolute path. One that waits
// already, with the same content and target, is not noted again; one that is not
// there is, where absent says that it comes later.
func AddUpload(ctx context.Context, list string, u Upload, absent bool) (Upload, error) {
	switch {
	case !slices.Contains(targetKinds, u.Target.Kind):
		return u, fmt.Errorf("the kind of target %q is none of %s", u.Target.Kind, strings.Join(targetKinds, ", "))
	case u.Target.Repo == "" || strings.ContainsAny(u.Target.Repo, " \\\n"):
		return u, fmt.Errorf("%q is no repository", u.Target.Repo)
	case u.Target.Path == "" || path.IsAbs(u.Target.Path) || path.Clean(u.Target.Path) != u.Target.Path || strings.HasPrefix(u.Target.Path, "..") || strings.Contains(u.Target.Path, "\\"):
		return u, fmt.Errorf("%q is no path in a repository", u.Target.Path)
	case u.Blocked == "":
		return u, errors.New("nothing is said of what is in its way")
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
	err = Update(ctx, list, func(have []Upload) ([]Upload, error) {
		if i := slices.IndexFunc(have, func(x Upload) bool { return x.ID == u.ID }); i >= 0 {
			u = have[i]
			return nil, nil
		}
		return []Upload{u}, nil
	})
	return u, err
}

// List reads the list and looks at the files.
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

// hash is the SHA-256 of a file, or Absent.
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
