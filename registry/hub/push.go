package hub

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// File is a file to publish.
type File struct {
	Path   string
	Size   int64
	SHA256 string // hexadecimal
	Open   func() (io.ReadCloser, error)
}

// PushOptions configures [Client.Push].
type PushOptions struct {
	Message string          // of the commit. Empty: a general one
	Private bool            // create the repository private
	Request bool            // open a pull request instead of committing to the revision
	Tell    func(file File) // reports a file before it is sent. Nil: none
}

// PushReport is the result of [Client.Push].
type PushReport struct {
	Commit  string // hexadecimal
	URL     string // of the commit, or of the pull request
	Sent    int    // large files
	Present int    // large files that the hub holds already
	Bytes   int64  // of large files sent
}

// Push commits files to a repository, which is created if missing. The commit fails
// if the revision changes meanwhile.
func (c *Client) Push(ctx context.Context, r Ref, files []File, opt PushOptions) (*PushReport, error) {
	for _, f := range files {
		if err := checkPath(f.Path); err != nil {
			return nil, err
		}
		if !hexadecimal(f.SHA256, 64) || f.Size < 0 {
			return nil, fmt.Errorf("file %s: bad SHA-256 %.80q or size %d", f.Path, f.SHA256, f.Size)
		}
	}
	report, err := c.push(ctx, r, files, opt)
	if err != nil {
		return report, fmt.Errorf("publishing to %s: %w", r, err)
	}
	return report, nil
}

func (c *Client) push(ctx context.Context, r Ref, files []File, opt PushOptions) (*PushReport, error) {
	if err := c.create(ctx, r, opt.Private); err != nil {
		return nil, err
	}
	parent, err := c.head(ctx, r)
	if err != nil {
		return nil, err
	}
	large, ignored, err := c.sort(ctx, r, files)
	if err != nil {
		return nil, err
	}
	if len(ignored) > 0 {
		return nil, fmt.Errorf("the hub ignores %s: its .gitignore or settings exclude it", strings.Join(ignored, ", "))
	}
	report := &PushReport{}
	if err := c.upload(ctx, r, files, large, opt, report); err != nil {
		return report, err
	}
	return report, c.commit(ctx, r, parent, files, large, opt, report)
}

// create creates the repository unless it exists.
func (c *Client) create(ctx context.Context, r Ref, private bool) error {
	owner, name, _ := strings.Cut(r.Repository, "/")
	_, err := c.call(ctx, "POST", "/api/repos/create", map[string]any{"name": name, "organization": owner, "type": "model", "private": private}, nil)
	var status *StatusError
	if errors.As(err, &status) && status.Status == http.StatusConflict {
		return nil
	}
	return err
}

// head returns the commit of the revision, "" for an empty repository.
func (c *Client) head(ctx context.Context, r Ref) (string, error) {
	var info struct{ SHA string }
	_, err := c.call(ctx, "GET", "/api/models/"+r.Repository+"/revision/"+r.revision(), nil, &info)
	if errors.Is(err, ErrMissing) && r.Revision == "" {
		return "", nil
	}
	return info.SHA, err
}

// Numbers of the protocol.
const (
	sampleBytes = 512      // of a file, for the hub's decision
	perCall     = 256      // files of a call
	maxInline   = 10 << 20 // bytes of a file within the commit
	maxCommit   = 64 << 20 // bytes of a commit
)

// sort asks the hub which files go through Git LFS and which it ignores.
func (c *Client) sort(ctx context.Context, r Ref, files []File) (large map[string]bool, ignored []string, err error) {
	type asked struct {
		Path   string `json:"path"`
		Size   int64  `json:"size"`
		Sample string `json:"sample"`
	}
	large = map[string]bool{}
	for part := range slices.Chunk(files, perCall) {
		var in struct {
			Files []asked `json:"files"`
		}
		for _, f := range part {
			sample, err := head(f, sampleBytes)
			if err != nil {
				return nil, nil, err
			}
			in.Files = append(in.Files, asked{f.Path, f.Size, base64.StdEncoding.EncodeToString(sample)})
		}
		var out struct {
			Files []struct {
				Path, UploadMode string
				ShouldIgnore     bool
			}
		}
		if _, err := c.call(ctx, "POST", "/api/models/"+r.Repository+"/preupload/"+r.revision(), in, &out); err != nil {
			return nil, nil, err
		}
		answers := map[string]string{}
		for _, a := range out.Files {
			answers[a.Path] = a.UploadMode
			if a.ShouldIgnore {
				ignored = append(ignored, a.Path)
			}
		}
		for _, f := range part {
			switch mode := answers[f.Path]; {
			case mode == "lfs" && f.Size > 0:
				large[f.Path] = true
			case f.Size > maxInline:
				return nil, nil, fmt.Errorf("the hub wants %s of %d bytes within the commit, limit %d", f.Path, f.Size, maxInline)
			case mode != "regular" && mode != "lfs":
				return nil, nil, fmt.Errorf("the hub's answer for %s: got mode %.40q, want regular or lfs", f.Path, mode)
			}
		}
	}
	return large, ignored, nil
}

// head reads the first bytes of a file.
func head(f File, n int64) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, n))
}

// commit records the files on the revision.
func (c *Client) commit(ctx context.Context, r Ref, parent string, files []File, large map[string]bool, opt PushOptions, report *PushReport) error {
	var body bytes.Buffer
	line := func(key string, value map[string]any) error {
		return json.NewEncoder(&body).Encode(map[string]any{"key": key, "value": value})
	}
	header := map[string]any{"summary": opt.Message, "description": ""}
	if opt.Message == "" {
		header["summary"] = "Publish with mm"
	}
	if parent != "" {
		header["parentCommit"] = parent
	}
	if err := line("header", header); err != nil {
		return err
	}
	for _, f := range files {
		if large[f.Path] {
			if err := line("lfsFile", map[string]any{"path": f.Path, "algo": "sha256", "oid": f.SHA256, "size": f.Size}); err != nil {
				return err
			}
			continue
		}
		data, err := head(f, maxInline)
		if err == nil && int64(len(data)) != f.Size {
			err = fmt.Errorf("file %s: got %d bytes, want %d", f.Path, len(data), f.Size)
		}
		if err == nil {
			err = line("file", map[string]any{"path": f.Path, "encoding": "base64", "content": base64.StdEncoding.EncodeToString(data)})
		}
		if err == nil && body.Len() > maxCommit {
			err = fmt.Errorf("files within the commit are larger than %d MiB", maxCommit>>20)
		}
		if err != nil {
			return err
		}
	}
	to := c.base.String() + "/api/models/" + r.Repository + "/commit/" + r.revision()
	if opt.Request {
		to += "?" + url.Values{"create_pr": {"1"}}.Encode()
	}
	var out struct{ CommitURL, CommitOID, PullRequestURL string }
	if _, err := c.send(ctx, "POST", to, "application/x-ndjson", body.Bytes(), &out); err != nil {
		var status *StatusError
		if errors.As(err, &status) && (status.Status == http.StatusConflict || status.Status == http.StatusPreconditionFailed) {
			return fmt.Errorf("the revision changed since %.12s, publish again: %w", parent, err)
		}
		return err
	}
	report.Commit, report.URL = out.CommitOID, out.CommitURL
	if out.PullRequestURL != "" {
		report.URL = out.PullRequestURL
	}
	return nil
}
