// Package page adds a web page to a server: a chat with pictures, sounds and tool calls, the
// parts of the served builds with their digests and limits, and the load of the server.
//
// The page is static and holds no data; its script asks /page/builds, /infer and /metrics
// with the user's key. Its policy allows nothing but files of the server, so that no text of
// a model runs as script.
package page

import (
	"embed"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/serve/api"
)

//go:embed static
var static embed.FS

// policy is the Content-Security-Policy of the page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; " +
	"media-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// types maps the files of the page to their media types.
var types = map[string]string{".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}

// Mount adds the routes of the page to a server.
func Mount(s *api.Server) {
	s.Handle(api.Route{Method: "GET", Pattern: "/page", Open: true, Serve: func(c *api.Call) error { return file(c, "index.html") }})
	for _, name := range []string{"page.js", "page.css"} {
		s.Handle(api.Route{Method: "GET", Pattern: "/page/" + name, Open: true, Serve: func(c *api.Call) error { return file(c, name) }})
	}
	s.Handle(api.Route{Method: "GET", Pattern: "/page/builds", Serve: list})
}

// file writes a file of the page.
func file(c *api.Call, name string) error {
	data, err := fs.ReadFile(static, "static/"+name)
	if err != nil {
		return err
	}
	h := c.W.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer")
	return c.Write(http.StatusOK, types[path.Ext(name)], data)
}

// build describes a served build.
type build struct {
	Model       string   `json:"model"`
	Name        string   `json:"name"`
	Version     string   `json:"version,omitempty"`
	Target      string   `json:"target,omitempty"`
	Description string   `json:"description,omitempty"`
	License     string   `json:"license,omitempty"`
	Digest      string   `json:"digest,omitempty"` // absent: the user's own files
	Inputs      []string `json:"inputs"`
	Outputs     []string `json:"outputs"`
	Parts       []part   `json:"parts"`
}

// part describes a module of a build.
type part struct {
	Role    string   `json:"role"`
	Name    string   `json:"name"`
	Version string   `json:"version,omitempty"`
	Quant   string   `json:"quant,omitempty"`
	Backend string   `json:"backend,omitempty"`
	Digest  string   `json:"digest,omitempty"`
	Limits  []string `json:"limits,omitempty"` // of a skill
}

// list answers /page/builds.
func list(c *api.Call) error {
	all := []build{}
	for _, m := range c.Server().Models() {
		all = append(all, describe(m.Name(), m.Answerer.Build()))
	}
	return c.Reply(map[string]any{"version": c.Server().Version(), "builds": all})
}

// describe returns the description of a build.
func describe(model string, b *builds.Build) build {
	a := b.Assembly
	out := build{
		Model: model, Name: a.Name, Version: a.Version, Target: a.Target, Description: a.Description, License: a.License, Digest: b.Digest,
		Inputs: []string{"text"}, Outputs: []string{"text"}, Parts: []part{},
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
		one := part{string(p.Type), p.Name, p.Version, p.Quant, p.Backend, p.Digest, limits[p.Name]}
		if !slices.ContainsFunc(out.Parts, func(q part) bool { return q.Name == one.Name }) {
			out.Parts = append(out.Parts, one)
		}
	}
	return out
}
