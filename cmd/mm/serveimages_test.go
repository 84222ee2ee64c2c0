package main

import (
	"bytes"
	"encoding/json"
	"image/png"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// askJSON posts a body and returns the status and the answer.
func askJSON(t *testing.T, url, body string) (int, string) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// The decoder of a build draws over HTTP: n images by their seeds, the same again, and
// other requests are refused by name.
func TestServeImages(t *testing.T) {
	t.Setenv("MM_HOME", filepath.Join(t.TempDir(), "home"))
	url := serveFor(t, "--target", "laptop", "../../builds/p-lite.graph.yaml") + "/v1/images/generations"
	draw := func(body string) [][]byte {
		t.Helper()
		status, text := askJSON(t, url, body)
		var got struct {
			Size string
			Data []struct {
				Image []byte `json:"b64_json"`
			}
		}
		if err := json.Unmarshal([]byte(text), &got); status != 200 || err != nil || got.Size != "96x96" {
			t.Fatalf("%d %.200s", status, text)
		}
		var list [][]byte
		for _, d := range got.Data {
			if _, err := png.Decode(bytes.NewReader(d.Image)); err != nil {
				t.Error(err)
			}
			list = append(list, d.Image)
		}
		return list
	}
	two := draw(`{"prompt": "a large red circle in the middle", "n": 2, "size": "auto"}`)
	if len(two) != 2 || bytes.Equal(two[0], two[1]) {
		t.Errorf("got %d images, want two that differ", len(two))
	}
	if again := draw(`{"prompt": "a large red circle in the middle", "seed": 1, "size": "96x96"}`); len(again) != 1 || !bytes.Equal(again[0], two[1]) {
		t.Error("the second image differs from that of its seed")
	}
	for body, want := range map[string]string{
		`{"prompt": "a circle", "size": "512x512"}`:           "want 96x96",
		`{"prompt": "a circle", "response_format": "url"}`:    "response_format",
		`{"prompt": "a circle", "output_format": "webp"}`:     "output_format",
		`{"prompt": "a circle", "n": 0}`:                      "1 to 10",
		`{"prompt": "a circle", "n": 11}`:                     "1 to 10",
		`{"prompt": ""}`:                                      "prompt",
		`{"prompt": "a circle", "style": "vivid"}`:            "style",
		`{"prompt": "a circle", "quality": "hd"}`:             "quality",
		`{"prompt": "a circle", "background": "transparent"}`: "background",
		`{"prompt": "a circle", "stream": true}`:              "stream",
		`{"prompt": "a circle", "model": "unknown"}`:          "model_not_found",
	} {
		if status, text := askJSON(t, url, body); status != 400 && status != 404 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %.200s, want %s", body, status, text, want)
		}
	}
}
