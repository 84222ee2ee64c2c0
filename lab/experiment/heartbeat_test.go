package experiment_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"mm-abi.org/mm/lab/experiment"
	"mm-abi.org/mm/lab/records"
)

// A run is alive if its last heartbeat is recent; not if it stopped, is stale or lies in
// the future. An incomplete line is ignored.
func TestReadStatus(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h.jsonl")
	if _, err := experiment.ReadStatus(path, time.Now()); err == nil {
		t.Error("read a missing file")
	}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	beat := func(event string) {
		t.Helper()
		if err := records.Append(context.Background(), path, experiment.Beat{Time: at.Format(time.RFC3339), Run: "r", Rows: 3, Event: event}); err != nil {
			t.Fatal(err)
		}
	}
	beat("step")
	for after, want := range map[time.Duration]bool{0: true, 599 * time.Second: true, 600 * time.Second: false, -2 * time.Minute: false} {
		if s, err := experiment.ReadStatus(path, at.Add(after)); err != nil || s.Alive != want || s.Beats != 1 || s.Rows != 3 {
			t.Errorf("after %v: %+v, %v", after, s, err)
		}
	}
	beat("stop")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := experiment.ReadStatus(path, at); err != nil || s.Alive || s.Beats != 2 {
		t.Errorf("%+v, %v", s, err)
	}
	if err := os.WriteFile(path, data[:len(data)-5], 0o644); err != nil {
		t.Fatal(err)
	}
	if s, err := experiment.ReadStatus(path, at); err != nil || !s.Alive || s.Beats != 1 {
		t.Errorf("incomplete line: %+v, %v", s, err)
	}
	if err := os.WriteFile(path, []byte(`{"time":"yesterday","run":"r","rows":3,"event":"step"}`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if s, err := experiment.ReadStatus(path, at); err == nil {
		t.Errorf("bad time: %+v", s)
	}
}
