package registrytest

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Hub is a hub of repositories in memory.
type Hub struct {
	URL   string
	Token string // required for writing. Empty: none
	Chunk int    // of multipart uploads. 0: basic
	Page  int    // entries of a listing's page

	servers []*httptest.Server
	mu      sync.Mutex
	repos   map[string][]commit
	objects map[string][]byte // by SHA-256
	// Fault answers instead of either host. Nil: none
	Fault   func(r *http.Request) (status int, body string)
	Puts    int      // uploads
	Ranges  int      // requests of ranges
	Foreign []string // Authorization headers seen at the storage host
}

type commit struct {
	id    string
	files map[string]stored
}

type stored struct {
	data []byte
	lfs  bool
}

// NewHub starts a hub that ends with the test.
func NewHub(t testing.TB) *Hub {
	d := Start()
	t.Cleanup(d.Close)
	return d
}

// Start starts a hub.
func Start() *Hub {
	d := &Hub{repos: map[string][]commit{}, objects: map[string][]byte{}, Page: 1000}
	storage := httptest.NewServer(d.faulty(d.storage))
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/repos/create", d.create)
	mux.HandleFunc("POST /api/validate-yaml", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, map[string]any{"errors": []any{}, "warnings": []any{}})
	})
	mux.HandleFunc("GET /api/models/{owner}/{name}", d.info)
	mux.HandleFunc("GET /api/models/{owner}/{name}/revision/{rev}", d.info)
	mux.HandleFunc("GET /api/models/{owner}/{name}/tree/{rev}", d.tree)
	mux.HandleFunc("POST /api/models/{owner}/{name}/preupload/{rev}", d.preupload)
	mux.HandleFunc("POST /api/models/{owner}/{name}/commit/{rev}", d.commit)
	git := http.NewServeMux() // of repositories
	git.HandleFunc("POST /{owner}/{name}/info/lfs/objects/batch", func(w http.ResponseWriter, r *http.Request) { d.batch(w, r, storage.URL) })
	git.HandleFunc("GET /{owner}/{name}/resolve/{rev}/{path...}", func(w http.ResponseWriter, r *http.Request) { d.resolve(w, r, storage.URL) })
	hub := httptest.NewServer(d.faulty(func(w http.ResponseWriter, r *http.Request) {
		if d.Token != "" && r.Method == "POST" && r.Header.Get("Authorization") != "Bearer "+d.Token {
			answer(w, 401, map[string]string{"error": "Invalid credentials"})
			return
		}
		if strings.HasPrefix(r.URL.Path, "/api/") {
			mux.ServeHTTP(w, r)
		} else {
			git.ServeHTTP(w, r)
		}
	}))
	d.URL, d.servers = hub.URL, []*httptest.Server{hub, storage}
	return d
}

// faulty answers with the status that Fault returns, or as next does.
func (d *Hub) faulty(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := d.Fault; f != nil {
			if status, body := f(r); status != 0 {
				w.Header().Set("Retry-After", "0")
				w.WriteHeader(status)
				_, _ = io.WriteString(w, body)
				return
			}
		}
		next(w, r)
	})
}

// Close ends the hub.
func (d *Hub) Close() {
	for _, s := range d.servers {
		s.Close()
	}
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func repo(r *http.Request) string { return r.PathValue("owner") + "/" + r.PathValue("name") }

func (d *Hub) last(name string) (commit, bool) {
	all, ok := d.repos[name]
	if !ok || len(all) == 0 {
		return commit{}, ok
	}
	return all[len(all)-1], true
}

func (d *Hub) create(w http.ResponseWriter, r *http.Request) {
	var in struct{ Name, Organization string }
	_ = json.NewDecoder(r.Body).Decode(&in)
	d.mu.Lock()
	defer d.mu.Unlock()
	name := in.Organization + "/" + in.Name
	body := map[string]string{"url": d.URL + "/" + name}
	if _, ok := d.repos[name]; ok {
		body["error"] = "You already created this model repo"
		answer(w, 409, body)
		return
	}
	d.repos[name] = []commit{{id: idOf("0"), files: map[string]stored{}}}
	answer(w, 200, body)
}

func idOf(s string) string { return fmt.Sprintf("%x", sha1.Sum([]byte(s))) }

func (d *Hub) info(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, ok := d.last(repo(r))
	if rev := r.PathValue("rev"); !ok || rev != "" && rev != "main" && rev != c.id {
		w.Header().Set("X-Error-Message", "Repository not found")
		answer(w, 404, map[string]string{"error": "Repository not found"})
		return
	}
	siblings := []map[string]string{}
	for _, p := range slices.Sorted(maps.Keys(c.files)) {
		siblings = append(siblings, map[string]string{"rfilename": p})
	}
	answer(w, 200, map[string]any{"id": repo(r), "modelId": repo(r), "sha": c.id, "gated": false, "private": false, "tags": []string{"gguf", "license:apache-2.0"}, "siblings": siblings})
}

func blob(data []byte) string {
	return fmt.Sprintf("%x", sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(data)), data...)))
}

func (d *Hub) tree(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, _ := d.last(repo(r))
	paths := slices.Sorted(maps.Keys(c.files))
	from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
	list := []map[string]any{{"type": "directory", "path": "folder", "oid": idOf("folder"), "size": 0}}
	to := min(from+d.Page, len(paths))
	for _, p := range paths[from:to] {
		f := c.files[p]
		e := map[string]any{"type": "file", "path": p, "size": len(f.data), "oid": blob(f.data)}
		if f.lfs {
			e["lfs"] = map[string]any{"oid": Digest(f.data), "size": len(f.data), "pointerSize": 130}
		}
		list = append(list, e)
	}
	if to < len(paths) {
		w.Header().Set("Link", fmt.Sprintf(`<%s%s?recursive=true&cursor=%d>; rel="next"`, d.URL, r.URL.Path, to))
	}
	answer(w, 200, list)
}

// Digest returns the SHA-256 of b, hexadecimal.
func Digest(b []byte) string { s := sha256.Sum256(b); return hex.EncodeToString(s[:]) }

func (d *Hub) preupload(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Files []struct {
			Path, Sample string
			Size         int64
		}
	}
	_ = json.NewDecoder(r.Body).Decode(&in)
	out := []map[string]any{}
	for _, f := range in.Files {
		mode := "regular"
		if sample, _ := base64.StdEncoding.DecodeString(f.Sample); f.Size > 1000 || strings.ContainsRune(string(sample), 0) {
			mode = "lfs"
		}
		out = append(out, map[string]any{"path": f.Path, "uploadMode": mode, "shouldIgnore": strings.HasSuffix(f.Path, ".ignored")})
	}
	answer(w, 200, map[string]any{"files": out})
}

func (d *Hub) batch(w http.ResponseWriter, r *http.Request, storage string) {
	var in struct {
		Objects []struct {
			OID  string
			Size int64
		}
	}
	_ = json.NewDecoder(r.Body).Decode(&in)
	d.mu.Lock()
	defer d.mu.Unlock()
	out := []map[string]any{}
	for _, o := range in.Objects {
		e := map[string]any{"oid": o.OID, "size": o.Size}
		if _, ok := d.objects[o.OID]; !ok {
			header, href := map[string]string{"X-Signed": "yes"}, storage+"/put/"+o.OID+"?sig=secret"
			if d.Chunk > 0 {
				header = map[string]string{"chunk_size": strconv.Itoa(d.Chunk)}
				for i := 0; i*d.Chunk < int(o.Size); i++ {
					header[fmt.Sprintf("%05d", i+1)] = fmt.Sprintf("%s/part/%s/%d?sig=secret", storage, o.OID, i+1)
				}
				href = storage + "/complete/" + o.OID
			}
			e["actions"] = map[string]any{"upload": map[string]any{"href": href, "header": header}, "verify": map[string]any{"href": storage + "/verify"}}
		}
		out = append(out, e)
	}
	w.Header().Set("Content-Type", "application/vnd.git-lfs+json")
	_ = json.NewEncoder(w).Encode(map[string]any{"transfer": "basic", "objects": out})
}

// storage is another host, which must not see the token.
func (d *Hub) storage(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	d.mu.Lock()
	defer d.mu.Unlock()
	if a := r.Header.Get("Authorization"); a != "" {
		d.Foreign = append(d.Foreign, a)
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch parts[0] {
	case "put":
		if err != nil || Digest(body) != parts[1] || r.Header.Get("X-Signed") != "yes" {
			answer(w, 400, map[string]string{"error": "bad content"})
			return
		}
		d.Puts++
		d.objects[parts[1]] = body
	case "part":
		d.Puts++
		d.objects[parts[1]+"/"+parts[2]] = body
		w.Header().Set("ETag", `"`+Digest(body)[:8]+`"`)
	case "complete":
		var in struct {
			OID   string
			Parts []struct {
				PartNumber int
				ETag       string
			}
		}
		_ = json.Unmarshal(body, &in)
		var all []byte
		for i, p := range in.Parts {
			piece := d.objects[fmt.Sprintf("%s/%d", in.OID, p.PartNumber)]
			if p.PartNumber != i+1 || p.ETag != `"`+Digest(piece)[:8]+`"` {
				answer(w, 400, map[string]string{"error": "bad part"})
				return
			}
			all = append(all, piece...)
		}
		if Digest(all) != in.OID {
			answer(w, 400, map[string]string{"error": "bad content"})
			return
		}
		d.objects[in.OID] = all
	case "verify":
		var in struct{ OID string }
		_ = json.Unmarshal(body, &in)
		if _, ok := d.objects[in.OID]; !ok {
			answer(w, 404, map[string]string{"error": "no object"})
			return
		}
	case "get":
		d.send(w, r, d.objects[parts[1]])
		return
	}
	w.WriteHeader(200)
}

// send answers with data, or a range of it.
func (d *Hub) send(w http.ResponseWriter, r *http.Request, data []byte) {
	from := 0
	if v, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok {
		d.Ranges++
		from, _ = strconv.Atoi(strings.TrimSuffix(v, "-"))
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(data)-1, len(data)))
		w.Header().Set("Content-Length", strconv.Itoa(len(data)-from))
		w.WriteHeader(http.StatusPartialContent)
	}
	if r.Method != http.MethodHead {
		_, _ = w.Write(data[from:])
	}
}

func (d *Hub) resolve(w http.ResponseWriter, r *http.Request, storage string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, _ := d.last(repo(r))
	f, ok := c.files[r.PathValue("path")]
	if !ok {
		w.Header().Set("X-Error-Code", "EntryNotFound")
		answer(w, 404, map[string]string{"error": "Entry not found"})
		return
	}
	w.Header().Set("X-Repo-Commit", c.id)
	if f.lfs {
		w.Header().Set("X-Linked-Size", strconv.Itoa(len(f.data)))
		w.Header().Set("X-Linked-Etag", `"`+Digest(f.data)+`"`)
		w.Header().Set("ETag", `"`+Digest(f.data)+`"`)
		http.Redirect(w, r, storage+"/get/"+Digest(f.data)+"?sig=secret", http.StatusFound)
		return
	}
	w.Header().Set("ETag", `"`+blob(f.data)+`"`)
	w.Header().Set("Content-Length", strconv.Itoa(len(f.data)))
	d.send(w, r, f.data)
}

func (d *Hub) commit(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	was, _ := d.last(repo(r))
	now := commit{files: maps.Clone(was.files)}
	dec := json.NewDecoder(r.Body)
	var all strings.Builder
	for {
		var line struct {
			Key   string
			Value struct{ Path, Content, OID, ParentCommit string }
		}
		if err := dec.Decode(&line); err == io.EOF {
			break
		} else if err != nil {
			answer(w, 400, map[string]string{"error": err.Error()})
			return
		}
		switch v := line.Value; line.Key {
		case "header":
			if v.ParentCommit != "" && v.ParentCommit != was.id {
				answer(w, 412, map[string]string{"error": "A commit has happened since"})
				return
			}
		case "file":
			data, _ := base64.StdEncoding.DecodeString(v.Content)
			now.files[v.Path] = stored{data: data}
		case "lfsFile":
			data, ok := d.objects[v.OID]
			if !ok {
				answer(w, 400, map[string]string{"error": "no object " + v.OID})
				return
			}
			now.files[v.Path] = stored{data, true}
		}
		fmt.Fprint(&all, line)
	}
	now.id = idOf(was.id + all.String())
	d.repos[repo(r)] = append(d.repos[repo(r)], now)
	answer(w, 200, map[string]string{"commitUrl": d.URL + "/" + repo(r) + "/commit/" + now.id, "commitOid": now.id})
}
