package train

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ReadCurves reads the output of Log.
func TestCurves(t *testing.T) {
	var b bytes.Buffer
	for _, e := range []Event{Started{TrainTokens: 5}, Step{Step: 1, Tokens: 10, Loss: 4}, Evaluated{Step: 1, Tokens: 10, Evaluation: Evaluation{Loss: 5}}, Saved{Step: 1}, Step{Step: 2, Tokens: 20, Loss: 3}, Finished{Step: 2}} {
		if err := (Log{&b}).Observe(e); err != nil {
			t.Fatal(err)
		}
	}
	training, held, err := ReadCurves(&b)
	if d := cmp.Diff([]Point{{10, 4}, {20, 3}}, training); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
	if d := cmp.Diff([]Point{{10, 5}}, held); d != "" {
		t.Error(d)
	}
	for _, bad := range []string{"x", "{}\n[1]\n", strings.Repeat("x", maxRecord+1)} {
		if _, _, err := ReadCurves(strings.NewReader(bad)); err == nil {
			t.Errorf("%.10q: accepted", bad)
		}
	}
}

func TestTrimMetrics(t *testing.T) {
	path := filepath.Join(t.TempDir(), MetricsFile)
	if err := TrimMetrics(path, 3); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("created a log")
	}
	log := `{"event":"step","step":2}` + "\n" + `{"event":"step","step":3}` + "\n" + `{"event":"step","step":4}` + "\nrubbish\n" + `{"event":"step","step":1`
	if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := TrimMetrics(path, 3); err != nil {
		t.Fatal(err)
	}
	if got, want := string(read(t, path)), log[:2*len(`{"event":"step","step":2}`)+2]; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func FuzzMetrics(f *testing.F) {
	f.Add([]byte("{\"event\":\"step\",\"step\":1}\n{\"ev"), 1)
	f.Fuzz(func(t *testing.T, b []byte, step int) {
		ReadCurves(bytes.NewReader(b))
		path := filepath.Join(t.TempDir(), "m")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if TrimMetrics(path, step) == nil {
			if _, _, err := ReadCurves(bytes.NewReader(read(t, path))); err != nil {
				t.Error(err)
			}
		}
	})
}
