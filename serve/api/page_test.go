package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes/runner"
)

// model is a build that answers nothing.
type model struct{}

func (model) Answer(context.Context, runner.Request, func(string) error) (*runner.Answer, error) {
	return nil, errors.New("no answer")
}

func (model) Load(context.Context) error { return nil }

func (model) Build() *builds.Build {
	part := func(name string, t abi.ModuleType) builds.Part {
		return builds.Part{Name: name, Version: "1.0.0", Type: t, Digest: "sha256:" + name}
	}
	return &builds.Build{Digest: "sha256:build", Assembly: &builds.Assembly{
		Name: "chat", Version: "2.0.0", Core: part("core", abi.Core),
		Modalities: []builds.ModalityPart{{Modality: abi.Image, Encoder: part("eye", abi.Encoder), Projector: part("proj", abi.Projector)}},
		Skills:     []builds.SkillPart{{Part: part("calc", abi.Skill), Limits: modules.Effective{TimeoutMS: 500}}},
	}}
}

func server(t *testing.T) *Server {
	t.Helper()
	keys, err := ParseKeys("keys", "me 0123456789abcdef")
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{Version: "1.2.3", Models: []Model{{Names: []string{"chat"}, Answerer: model{}}}, Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	MountPage(s)
	return s
}

func get(t *testing.T, s *Server, path, key string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest("GET", "http://127.0.0.1"+path, nil)
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// The page and its files need no key, name only each other, and forbid scripts in the text.
func TestFiles(t *testing.T) {
	s := server(t)
	link := regexp.MustCompile(`(?:src|href)="([^"]*)"`)
	for path, kind := range map[string]string{"/page": "text/html", "/page/page.js": "text/javascript", "/page/page.css": "text/css"} {
		w := get(t, s, path, "")
		h := w.Header()
		if w.Code != 200 || !strings.HasPrefix(h.Get("Content-Type"), kind) || h.Get("Content-Security-Policy") != pagePolicy {
			t.Errorf("%s: got %d, %v", path, w.Code, h)
		}
		for _, m := range link.FindAllStringSubmatch(w.Body.String(), -1) {
			if m[1] != "data:," && get(t, s, m[1], "").Code != 200 {
				t.Errorf("%s: dead link %s", path, m[1])
			}
		}
		for _, bad := range []string{"innerHTML", "onclick=\"", "style=\"", "http://", "https://", "eval("} {
			if strings.Contains(w.Body.String(), bad) {
				t.Errorf("%s contains %s", path, bad)
			}
		}
	}
}

func TestBuilds(t *testing.T) {
	s := server(t)
	if w := get(t, s, "/page/builds", ""); w.Code != 401 {
		t.Errorf("without a key: got %d", w.Code)
	}
	var got struct {
		Version string
		Builds  []pageBuild
	}
	w := get(t, s, "/page/builds", "0123456789abcdef")
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.Builds) != 1 {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	want := pageBuild{
		Model: "chat", Name: "chat", Version: "2.0.0", Digest: "sha256:build", Inputs: []string{"text", "image"}, Outputs: []string{"text"},
		Parts: []pagePart{
			{Role: "core", Name: "core", Version: "1.0.0", Digest: "sha256:core"}, {Role: "encoder", Name: "eye", Version: "1.0.0", Digest: "sha256:eye"},
			{Role: "projector", Name: "proj", Version: "1.0.0", Digest: "sha256:proj"},
			{Role: "skill", Name: "calc", Version: "1.0.0", Digest: "sha256:calc", Limits: []string{modules.Effective{TimeoutMS: 500}.String()}},
		},
	}
	if diff := cmp.Diff(want, got.Builds[0]); diff != "" || got.Version != "1.2.3" {
		t.Errorf("version %q, (-want +got):\n%s", got.Version, diff)
	}
}
