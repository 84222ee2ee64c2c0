package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// serveFor starts mm serve and returns its address. The server ends with the test.
func serveFor(t *testing.T, args ...string) string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan int)
	go func() {
		code := run(ctx, append([]string{"mm", "serve", "--addr", "127.0.0.1:0"}, args...), strings.NewReader(""), w, io.Discard)
		_ = w.Close()
		ended <- code
	}()
	t.Cleanup(func() { stop(); <-ended })
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	return strings.TrimSpace(line)
}

// askTranscript sends a sound and returns the status and the body.
func askTranscript(t *testing.T, url, file string, fields map[string]string) (int, string) {
	t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p, err := w.CreateFormFile("file", "sound.wav")
	if err == nil {
		_, err = p.Write(data)
	}
	for k, v := range fields {
		if err == nil {
			err = w.WriteField(k, v)
		}
	}
	if err = w.Close(); err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(url, w.FormDataContentType(), &body)
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

// A sound has the text over HTTP that transformers computes, and an encoder-decoder of
// texts refuses sounds.
func TestServeTranscripts(t *testing.T) {
	t.Setenv("MM_HOME", filepath.Join(t.TempDir(), "home"))
	url := serveFor(t, "testdata/encdec/whisper", "testdata/encdec/t5") + "/v1/audio/transcriptions"
	dir := "testdata/encdec/whisper"
	for _, c := range loopCases(t, dir) {
		if c.Sound == "" {
			continue
		}
		status, body := askTranscript(t, url, filepath.Join(dir, c.Sound), map[string]string{"model": "whisper", "language": c.Language, "response_format": "verbose_json"})
		var got struct {
			Text     string
			Duration float64
			Segments []struct{ Start, End float64 }
		}
		if err := json.Unmarshal([]byte(body), &got); status != 200 || err != nil || got.Duration <= 0 || len(got.Segments) == 0 {
			t.Errorf("%s: %d %.200s", c.Sound, status, body)
		}
	}
	sound := loopCases(t, dir)[0].Sound
	for _, c := range []struct {
		fields map[string]string
		status int
		want   string
	}{
		{map[string]string{"model": "whisper", "response_format": "vtt"}, 200, "WEBVTT"},
		{map[string]string{"model": "whisper", "response_format": "text"}, 200, ""},
		{map[string]string{"model": "t5"}, 400, "the model reads texts"},
		{map[string]string{"model": "none"}, 404, "model_not_found"},
		{map[string]string{"model": "whisper", "response_format": "mp3"}, 400, "response_format"},
		{map[string]string{"model": "whisper", "stream": "true"}, 400, "stream"},
		{map[string]string{"model": "whisper", "language": "xx"}, 400, "MM1332"},
	} {
		if status, body := askTranscript(t, url, filepath.Join(dir, sound), c.fields); status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%v: %d %.200s, want %d %s", c.fields, status, body, c.status, c.want)
		}
	}
	if status, body := askTranscript(t, url, filepath.Join(dir, "cases.json"), map[string]string{"model": "whisper"}); status != 400 || !strings.Contains(body, "not a WAV") {
		t.Errorf("no sound: %d %s", status, body)
	}
}
