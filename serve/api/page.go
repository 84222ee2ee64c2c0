package api

import (
	"embed"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"

	"mm-abi.org/mm/builds"
)

//go:embed page
var pageFiles embed.FS

// pagePolicy is the Content-Security-Policy of the page.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; " +
	"media-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// pageTypes maps the files of the page to their media types.
var pageTypes = map[string]string{".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}

// MountPage adds a web page to a server: a chat with pictures, sounds and tool calls, the
// parts of the served builds with their digests and limits, and the load of the server.
//
// The page is static and holds no data; its script asks /page/builds, /infer and /metrics
// with the user's key. Its policy allows nothing but files of the server, so that no text of
// a model runs as script.
func MountPage(s *Server) {
	s.Handle(Route{Method: "GET", Pattern: "/page", Open: true, Serve: func(c *Call) error { return pageFile(c, "index.html") }})
	for _, name := range []string{"page.js", "page.css"} {
		s.Handle(Route{Method: "GET", Pattern: "/page/" + name, Open: true, Serve: func(c *Call) error { return pageFile(c, name) }})
	}
	s.Handle(Route{Method: "GET", Pattern: "/page/builds", Serve: listBuilds})
}

// pageFile writes a file of the page.
func pageFile(c *Call, name string) error {
	data, err := fs.ReadFile(pageFiles, "page/"+name)
	if err != nil {
		return err
	}
	h := c.W.Header()
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Referrer-Policy", "no-referrer")
	return c.Write(http.StatusOK, pageTypes[path.Ext(name)], data)
}

// pageBuild describes a served build.
type pageBuild struct {
	Model       string     `json:"model"`
	Name        string     `json:"name"`
	Version     string     `json:"version,omitempty"`
	Target      string     `json:"target,omitempty"`
	Description string     `json:"description,omitempty"`
	License     string     `json:"license,omitempty"`
	Digest      string     `json:"digest,omitempty"` // absent: the user's own files
	Inputs      []string   `json:"inputs"`
	Outputs     []string   `json:"outputs"`
	Parts       []pagePart `json:"parts"`
}

// pagePart describes a module of a build.
type pagePart struct {
	Role    string   `json:"role"`
	Name    string   `json:"name"`
	Version string   `json:"version,omitempty"`
	Quant   string   `json:"quant,omitempty"`
	Backend string   `json:"backend,omitempty"`
	Digest  string   `json:"digest,omitempty"`
	Limits  []string `json:"limits,omitempty"` // of a skill
}

// listBuilds answers /page/builds.
func listBuilds(c *Call) error {
	all := []pageBuild{}
	for _, m := range c.Server().Models() {
		all = append(all, describeBuild(m.Name(), m.Answerer.Build()))
	}
	return c.Reply(map[string]any{"version": c.Server().Version(), "builds": all})
}

// describeBuild returns the description of a build.
func describeBuild(model string, b *builds.Build) pageBuild {
	a := b.Assembly
	out := pageBuild{
		Model: model, Name: a.Name, Version: a.Version, Target: a.Target, Description: a.Description, License: a.License, Digest: b.Digest,
		Inputs: []string{"text"}, Outputs: []string{"text"}, Parts: []pagePart{},
	}
	for _, m := range a.Modalities {
		out.Inputs = append(out.Inputs, string(m.Modality))
	}
	for _, d := range a.Decoders {
		out.Outputs = append(out.Outputs, string(d.Modality))
	}
	limits := map[string][]string{}
	for _, s := range a.Skills {
		limits[s.Name] = []string{s.Limits.String()}
		if asks := s.Asks().List(); len(asks) > 0 {
			limits[s.Name] = append(limits[s.Name], "asks for "+strings.Join(asks, ", "))
		}
	}
	for _, p := range a.Parts() {
		one := pagePart{string(p.Type), p.Name, p.Version, p.Quant, p.Backend, p.Digest, limits[p.Name]}
		if !slices.ContainsFunc(out.Parts, func(q pagePart) bool { return q.Name == one.Name }) {
			out.Parts = append(out.Parts, one)
		}
	}
	return out
}
