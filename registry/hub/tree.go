package hub

import (
	"context"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
)

// Entry is a file of a revision.
type Entry struct {
	Path   string
	Size   int64
	SHA256 string // of a file in Git LFS, hexadecimal
	Blob   string // Git's id of another file, hexadecimal
}

// Tree is the files of a commit.
type Tree struct {
	Repository string
	Commit     string // hexadecimal
	Gated      bool   // the hub asks users to accept terms
	License    string // the tag license:… of the card, if any
	Files      []Entry
}

// Limits of a listing.
const (
	maxFiles = 100_000
	maxPages = 1_000
)

// Tree lists a revision.
func (c *Client) Tree(ctx context.Context, r Ref) (*Tree, error) {
	var info struct {
		SHA   string
		Gated any
		Tags  []string
	}
	if _, err := c.call(ctx, "GET", "/api/models/"+r.Repository+"/revision/"+r.revision(), nil, &info); err != nil {
		return nil, fmt.Errorf("finding %s: %w", r, err)
	}
	if !hexadecimal(info.SHA, 40) {
		return nil, fmt.Errorf("finding %s: bad commit %.80q", r, info.SHA)
	}
	t := &Tree{Repository: r.Repository, Commit: info.SHA, Gated: info.Gated != nil && info.Gated != false}
	for _, tag := range info.Tags {
		if l, ok := strings.CutPrefix(tag, "license:"); ok {
			t.License = l
		}
	}
	next := c.base.String() + "/api/models/" + r.Repository + "/tree/" + t.Commit + "?recursive=true"
	for page := 0; next != ""; page++ {
		if page == maxPages {
			return nil, fmt.Errorf("listing %s: more than %d pages", r, maxPages)
		}
		var err error
		if next, err = c.page(ctx, t, next); err != nil {
			return nil, fmt.Errorf("listing %s: %w", r, err)
		}
	}
	return t, nil
}

// page adds a page of the listing and returns the URL of the next one.
func (c *Client) page(ctx context.Context, t *Tree, from string) (next string, err error) {
	var list []struct {
		Type, Path, OID string
		Size            int64
		LFS             *struct {
			OID  string
			Size int64
		}
	}
	header, err := c.send(ctx, "GET", from, "application/json", nil, &list)
	if err != nil {
		return "", err
	}
	for _, e := range list {
		if e.Type != "file" {
			continue
		}
		f := Entry{Path: e.Path, Size: e.Size, Blob: e.OID}
		if e.LFS != nil {
			f.SHA256, f.Size, f.Blob = e.LFS.OID, e.LFS.Size, ""
		}
		switch {
		case len(t.Files) == maxFiles:
			return "", fmt.Errorf("more than %d files", maxFiles)
		case f.Size < 0 || f.SHA256 == "" && !hexadecimal(f.Blob, 40) || f.SHA256 != "" && !hexadecimal(f.SHA256, 64):
			return "", fmt.Errorf("bad entry of %.80q: size %d, id %.80q", f.Path, f.Size, f.SHA256+f.Blob)
		}
		if err := checkPath(f.Path); err != nil {
			return "", err
		}
		t.Files = append(t.Files, f)
	}
	return c.nextPage(header.Get("Link"))
}

// nextPage returns the URL of rel="next", which must be the hub's.
func (c *Client) nextPage(link string) (string, error) {
	for part := range strings.SplitSeq(link, ",") {
		target, rel, _ := strings.Cut(strings.TrimSpace(part), ";")
		if !strings.Contains(rel, `rel="next"`) {
			continue
		}
		u, err := url.Parse(strings.Trim(target, "<>"))
		if err != nil {
			return "", fmt.Errorf("bad link to the next page: %w", err)
		}
		u = c.base.ResolveReference(u)
		if u.Host != c.base.Host || u.Scheme != c.base.Scheme {
			return "", fmt.Errorf("link to the next page at another host %q", u.Host)
		}
		return u.String(), nil
	}
	return "", nil
}

func hexadecimal(s string, n int) bool {
	return len(s) == n && strings.Trim(s, "0123456789abcdef") == ""
}

// Choose returns the files that match a pattern of include, all if it is empty,
// and of GGUF files those of the quantization. Of a repository with several
// quantizations one must be chosen. Patterns are those of path.Match, for the whole
// path or the name.
func (t *Tree) Choose(r Ref, include []string) ([]Entry, error) {
	if len(include) > 0 {
		return t.matching(include)
	}
	kinds := map[string][]string{} // quantizations of a model, by its name
	for _, f := range t.Files {
		if model, quant := quantOf(f.Path); quant != "" && !slices.Contains(kinds[model], quant) {
			kinds[model] = append(kinds[model], quant)
		}
	}
	var out []Entry
	var names []string
	for _, f := range t.Files {
		model, quant := quantOf(f.Path)
		choice := len(kinds[model]) > 1 || quant != "" && r.Quant != ""
		if choice && !slices.Contains(names, quant) {
			names = append(names, quant)
		}
		if !choice || r.Quant == "" || strings.EqualFold(quant, r.Quant) {
			out = append(out, f)
		}
	}
	slices.Sort(names)
	switch {
	case r.Quant == "" && len(names) > 0:
		return nil, fmt.Errorf("%s has %d quantizations: name one, as in %s:%s (%s)", r, len(names), r, names[0], strings.Join(names, ", "))
	case r.Quant != "" && !slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, r.Quant) }):
		return nil, fmt.Errorf("%s: got quantization %q, want one of %s", r, r.Quant, strings.Join(names, ", "))
	}
	return out, nil
}

// matching returns the files that match any of the patterns; each must match one.
func (t *Tree) matching(include []string) ([]Entry, error) {
	matched := make([]bool, len(include))
	var out []Entry
	for _, f := range t.Files {
		take := false
		for i, p := range include {
			for _, name := range []string{f.Path, path.Base(f.Path)} {
				ok, err := path.Match(p, name)
				if err != nil {
					return nil, fmt.Errorf("pattern %q: %w", p, err)
				}
				if ok {
					take, matched[i] = true, true
				}
			}
		}
		if take {
			out = append(out, f)
		}
	}
	if i := slices.Index(matched, false); i >= 0 {
		return nil, fmt.Errorf("no file matches %q", include[i])
	}
	return out, nil
}

// quantOf returns the name of the model in a GGUF file's and its quantization: the
// last part of the name with a digit, without the number of a piece. Other files,
// vision towers included, have none.
func quantOf(p string) (model, quant string) {
	name, gguf := strings.CutSuffix(path.Base(p), ".gguf")
	if !gguf || strings.Contains(strings.ToLower(name), "mmproj") {
		return p, ""
	}
	if i := strings.LastIndex(name, "-of-"); i > 6 && len(name)-i == len("-of-00000") {
		name = name[:i-len("-00000")]
	}
	at := strings.LastIndexAny(name, "-.")
	if at < 0 || !strings.ContainsAny(name[at:], "0123456789") {
		return name, ""
	}
	model, quant = name[:at], strings.ToUpper(name[at+1:])
	if m, other := strings.CutSuffix(model, "-UD"); other { // another recipe of the same name
		return m, "UD-" + quant
	}
	return model, quant
}
