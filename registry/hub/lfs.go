package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// lfsType is the media type of the Git LFS protocol.
const lfsType = "application/vnd.git-lfs+json"

// action is a request of the LFS protocol.
type action struct {
	Href   string            `json:"href"`
	Header map[string]string `json:"header"`
}

// object is an answer for an object of a batch.
type object struct {
	OID     string `json:"oid"`
	Size    int64  `json:"size"`
	Actions *struct {
		Upload, Verify *action
	} `json:"actions"`
	Error *struct {
		Code    int
		Message string
	} `json:"error"`
}

// upload sends the large files that the hub lacks.
func (c *Client) upload(ctx context.Context, r Ref, files []File, large map[string]bool, opt PushOptions, report *PushReport) error {
	var list []File
	seen := map[string]bool{}
	for _, f := range files {
		if large[f.Path] && !seen[f.SHA256] {
			seen[f.SHA256] = true
			list = append(list, f)
		}
	}
	for len(list) > 0 {
		part := list[:min(len(list), perCall)]
		list = list[len(part):]
		answers, err := c.batch(ctx, r, part)
		if err != nil {
			return err
		}
		for _, f := range part {
			o, ok := answers[f.SHA256]
			switch {
			case !ok:
				return fmt.Errorf("the hub does not answer for %s", f.Path)
			case o.Error != nil:
				return fmt.Errorf("the hub refuses %s: %d %s", f.Path, o.Error.Code, o.Error.Message)
			case o.Actions == nil || o.Actions.Upload == nil:
				report.Present++
				continue
			}
			if opt.Tell != nil {
				opt.Tell(f)
			}
			if err := c.sendObject(ctx, f, o); err != nil {
				return fmt.Errorf("sending %s: %w", f.Path, err)
			}
			report.Sent++
			report.Bytes += f.Size
		}
	}
	return nil
}

// batch asks where files go.
func (c *Client) batch(ctx context.Context, r Ref, files []File) (map[string]object, error) {
	type entry struct {
		OID  string `json:"oid"`
		Size int64  `json:"size"`
	}
	in := struct {
		Operation string            `json:"operation"`
		Transfers []string          `json:"transfers"`
		Algorithm string            `json:"hash_algo"`
		Ref       map[string]string `json:"ref,omitempty"`
		Objects   []entry           `json:"objects"`
	}{Operation: "upload", Transfers: []string{"basic", "multipart"}, Algorithm: "sha256"}
	if r.Revision != "" {
		in.Ref = map[string]string{"name": r.Revision}
	}
	for _, f := range files {
		in.Objects = append(in.Objects, entry{f.SHA256, f.Size})
	}
	body, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	var out struct {
		Transfer string
		Objects  []object
	}
	if _, err := c.send(ctx, "POST", c.base.String()+"/"+r.Repository+".git/info/lfs/objects/batch", lfsType, body, &out); err != nil {
		return nil, err
	}
	if out.Transfer != "" && out.Transfer != "basic" && out.Transfer != "multipart" {
		return nil, fmt.Errorf("the hub wants transfer %.40q, want basic or multipart", out.Transfer)
	}
	answers := map[string]object{}
	for _, o := range out.Objects {
		answers[o.OID] = o
	}
	return answers, nil
}

// sendObject sends a file whole or in parts, and has it verified.
func (c *Client) sendObject(ctx context.Context, f File, o object) error {
	up := o.Actions.Upload
	chunk, err := strconv.ParseInt(up.Header["chunk_size"], 10, 64)
	switch {
	case up.Header["chunk_size"] == "":
		_, err = c.put(ctx, f, 0, f.Size, *up)
	case err != nil || chunk < 1:
		err = fmt.Errorf("bad size of parts %.40q", up.Header["chunk_size"])
	default:
		err = c.sendParts(ctx, f, chunk, up)
	}
	if err != nil || o.Actions.Verify == nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"oid": f.SHA256, "size": f.Size})
	if err != nil {
		return err
	}
	_, err = c.send(ctx, "POST", o.Actions.Verify.Href, lfsType, body, nil)
	return err
}

// maxParts limits the parts of a file.
const maxParts = 10_000

// sendParts sends a file in parts and completes it. The header of the action holds
// the URL of each part under its number.
func (c *Client) sendParts(ctx context.Context, f File, chunk int64, up *action) error {
	type part struct {
		Number int    `json:"partNumber"`
		Tag    string `json:"etag"`
	}
	count := (f.Size + chunk - 1) / chunk
	if count > maxParts {
		return fmt.Errorf("%d parts of %d bytes, limit %d", count, chunk, maxParts)
	}
	hrefs := map[int]string{}
	for key, v := range up.Header {
		if n, err := strconv.Atoi(key); err == nil {
			hrefs[n] = v
		}
	}
	var parts []part
	for i := range int(count) {
		href := hrefs[i+1]
		if href == "" {
			return fmt.Errorf("the hub names no URL for part %d of %d", i+1, count)
		}
		from := int64(i) * chunk
		tag, err := c.put(ctx, f, from, min(chunk, f.Size-from), action{Href: href})
		if err != nil {
			return err
		}
		parts = append(parts, part{i + 1, tag})
	}
	body, err := json.Marshal(map[string]any{"oid": f.SHA256, "parts": parts})
	if err != nil {
		return err
	}
	_, err = c.send(ctx, "POST", up.Href, lfsType, body, nil)
	return err
}

// put sends n bytes of a file from an offset on and returns the tag of the answer.
// Only the headers of the action go with it, and never the token to another host.
func (c *Client) put(ctx context.Context, f File, from, n int64, to action) (tag string, err error) {
	u, err := url.Parse(to.Href)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Host != c.base.Host && !loopback(u.Hostname()) {
		return "", fmt.Errorf("bad URL for the upload at %.80q", hostOf(u))
	}
	open := func() (io.ReadCloser, error) {
		r, err := f.Open()
		if err != nil {
			return nil, err
		}
		if s, ok := r.(io.Seeker); ok {
			_, err = s.Seek(from, io.SeekStart)
		} else {
			_, err = io.CopyN(io.Discard, r, from)
		}
		return struct {
			io.Reader
			io.Closer
		}{io.LimitReader(r, n), r}, err
	}
	body, err := open()
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, "PUT", to.Href, body)
	if err != nil {
		return "", err
	}
	req.ContentLength, req.GetBody = n, open
	if n == 0 {
		req.Body = http.NoBody
	}
	for k, v := range to.Header {
		req.Header.Set(k, v)
	}
	resp, err := c.do(req)
	if err != nil {
		return "", err
	}
	return resp.Header.Get("ETag"), resp.Body.Close()
}

func hostOf(u *url.URL) string {
	if u == nil {
		return ""
	}
	return u.Host
}
