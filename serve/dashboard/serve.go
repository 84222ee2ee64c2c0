package dashboard

import (
	"net/http"
	"path"
	"sync/atomic"

	"mm-abi.org/mm/serve/api"
)

// Pages holds the pages that a server shows below /dashboard.
type Pages struct {
	files atomic.Pointer[map[string][]byte]
}

// Set replaces the pages.
func (p *Pages) Set(files []File) {
	all := map[string][]byte{}
	for _, f := range files {
		all[f.Path] = f.Data
	}
	p.files.Store(&all)
}

// extensions maps the other files of a dashboard to their media types.
var extensions = map[string]string{".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}

// Mount adds the routes of the pages to a server. Browsers send a key as the password of
// HTTP Basic.
func (p *Pages) Mount(s *api.Server) {
	s.Handle(
		api.Route{Method: "GET", Pattern: "/dashboard", Password: true, Serve: func(c *api.Call) error {
			c.W.Header().Set("Location", "/dashboard/index.html")
			return c.Write(http.StatusFound, "text/plain", nil)
		}},
		api.Route{Method: "GET", Pattern: "/dashboard/{file...}", Password: true, Serve: p.serve},
	)
}

// serve writes a file.
func (p *Pages) serve(c *api.Call) error {
	name := c.R.PathValue("file")
	var data []byte
	if all := p.files.Load(); all != nil {
		data = (*all)[name]
	}
	if data == nil {
		return &api.Error{Status: http.StatusNotFound, Kind: api.InvalidRequest, Code: "unknown_path", Message: "the dashboard has no such page"}
	}
	kind := extensions[path.Ext(name)]
	for mediaType, ext := range mediaTypes {
		if ext == path.Ext(name) {
			kind = mediaType
		}
	}
	h := c.W.Header()
	h.Set("Content-Security-Policy", policy+"; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	return c.Write(http.StatusOK, kind, data)
}
