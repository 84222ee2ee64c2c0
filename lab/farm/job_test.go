package farm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nkeys"
)

func TestEncode(t *testing.T) {
	j := Job{Args: []string{"experiment", "trial", "spec.json", "--out=result.json"}, Inputs: map[string]string{"parts/train.jsonl": strings.Repeat("a", 64)},
		Outputs: []string{"result.json"}, Needs: []string{"ram=1G", "cpu=avx2", "ram=1G"}, Keep: "study-1", Attempts: maxAttempts, Seconds: 1}
	data, id, err := j.Encode()
	if err != nil || id != hexSum(data) {
		t.Fatalf("got %s, %v", id, err)
	}
	got, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	j.Version, j.Needs = jobVersion, []string{"cpu=avx2", "ram=1G"}
	if diff := cmp.Diff(j, got); diff != "" {
		t.Error(diff)
	}
	files := func(n int) map[string]string {
		m := map[string]string{}
		for i := range n {
			m[fmt.Sprint(i)] = strings.Repeat("a", 64)
		}
		return m
	}
	needs := func(n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprint("n", i))
		}
		return out
	}
	version := func(args ...string) []string { return append([]string{"version"}, args...) }
	for name, c := range map[string]struct {
		job  Job
		want string // "" for a valid job
	}{
		"plain":          {Job{Args: version()}, ""},
		"no command":     {Job{}, "command"},
		"command":        {Job{Args: []string{"keys", "generate"}}, `"keys generate": want one of experiment trial`},
		"absolute":       {Job{Args: version("/etc/passwd")}, "in the folder"},
		"absolute flag":  {Job{Args: version("--out=/etc/passwd")}, "in the folder"},
		"above":          {Job{Args: version("a/../../b")}, "in the folder"},
		"above, Windows": {Job{Args: version(`a\..\b`)}, "in the folder"},
		"list":           {Job{Args: version("--files=a,/etc/passwd")}, "in the folder"},
		"named":          {Job{Args: version("--asset", "a=../b")}, "in the folder"},
		"home":           {Job{Args: version("~/x")}, "in the folder"},
		"drive":          {Job{Args: version(`C:\Users\x`)}, "in the folder"},
		"drive, flag":    {Job{Args: version("--out=d:x")}, "in the folder"},
		"drive, list":    {Job{Args: version("a,Z:/x")}, "in the folder"},
		"share":          {Job{Args: version(`\\server\x`)}, "in the folder"},
		"no drive":       {Job{Args: version("words:2", "1:2")}, ""},
		"folder":         {Job{Args: version(), Outputs: []string{"out/"}}, ""},
		"bad folder":     {Job{Args: version(), Outputs: []string{"../out/"}}, "invalid output"},
		"whole folder":   {Job{Args: version(), Outputs: []string{"/"}}, "invalid output"},
		"kept output":    {Job{Args: version(), Keep: "k", Inputs: map[string]string{"out/a": strings.Repeat("a", 64)}, Outputs: []string{"out/"}}, "in a kept folder"},
		"home of mm":     {Job{Args: version(), Home: "home"}, ""},
		"home above":     {Job{Args: version(), Home: "../home"}, "invalid home"},
		"input":          {Job{Args: version(), Inputs: map[string]string{"../a": strings.Repeat("a", 64)}}, "invalid input"},
		"digest":         {Job{Args: version(), Inputs: map[string]string{"a": "b"}}, "invalid input"},
		"output":         {Job{Args: version(), Outputs: []string{"/a"}}, "invalid output"},
		"keep":           {Job{Args: version(), Keep: "../a"}, "name of a folder"},
		"attempts":       {Job{Args: version(), Attempts: maxAttempts + 1}, "attempts"},
		"files":          {Job{Args: version(), Outputs: make([]string, maxFiles+1)}, "limit 4096"},
		"most needs":     {Job{Args: version(), Needs: needs(maxNeeds)}, ""},
		"needs":          {Job{Args: version(), Needs: needs(maxNeeds + 1)}, "limit 32"},
		"need":           {Job{Args: version(), Needs: []string{"ram=much"}}, "invalid size"},
		"bytes":          {Job{Args: version(strings.Repeat("a", maxJob))}, "limit 262144"},
		"most files":     {Job{Args: version(), Inputs: files(2048)}, ""},
	} {
		_, _, err := c.job.Encode()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	for text, want := range map[string]string{`{"version":2,"args":["version"]}`: "version 2", `{"version":1,"args":["version"],"x":1}`: "unknown field", `{"version":1,"args":["version"]} {}`: "trailing", "{": "job:",
		`{"version":1,"args":["version"]}` + strings.Repeat(" ", maxJob): "limit"} {
		if _, err := Decode([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: got %v, want %q", text, err, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"version":1,"args":["version"],"inputs":{"a":"b"},"needs":["ram=1G"]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		j, err := Decode(data)
		if err != nil {
			return
		}
		text, _, err := j.Encode()
		if err != nil {
			t.Fatalf("decoded, not encoded: %v", err)
		}
		if again, err := Decode(text); err != nil || !cmp.Equal(again.Args, j.Args) {
			t.Fatalf("got %v, %v, want %v", again, err, j)
		}
	})
}

func TestMeets(t *testing.T) {
	c := Capabilities{}
	if err := c.Add("avx2, cpu=avx512,ram=16G,engine=llamacpp,cores=4"); err != nil {
		t.Fatal(err)
	}
	if err := c.Add("ram=32G"); err != nil {
		t.Fatal(err)
	}
	for needs, want := range map[string]bool{"": true, "avx2": true, "avx512": false, "cpu=avx512": true, "cpu=avx2": false, "ram=32G": true, "ram=33G": false, "cores=4": true, "cores=5": false,
		"ram=1G avx2": true, "ram=1G gpu": false, "engine=llamacpp": true} {
		if got := c.Meets(strings.Fields(needs)); got != want {
			t.Errorf("%q: got %t", needs, got)
		}
	}
	if got, want := c.String(), "avx2,cores=4,cpu=avx512,engine=llamacpp,ram=32G"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, bad := range []string{"", "A", "ram=0", "ram=-1", "cores=x", "a=b=c", "a b"} {
		if err := c.Add(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	if d := Detect(); !d.Meets([]string{"cores=1", "ram=1M"}) {
		t.Errorf("this machine: %s", d)
	}
}

func TestAddresses(t *testing.T) {
	for list, want := range map[string]string{"": "", "nats://127.0.0.1:1,nats://[::1]:2": "", "tls://nats.example:4222": "", "nats://localhost": "",
		"nats://nats.example:4222": "want tls://", "nats://user:secret@127.0.0.1": "visible to others", "http://127.0.0.1": "invalid address", "nats://127.0.0.1/x": "invalid address", ":": "invalid address"} {
		_, err := addresses(list)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", list, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret@") {
			t.Errorf("the error shows a password: %v", err)
		}
	}
}

func TestCredentials(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		opt  Options
		want string
	}{
		"token":        {Options{Token: file("token", "abc\n")}, ""},
		"longest":      {Options{Token: file("longest", strings.Repeat("a", maxSecret))}, ""},
		"long":         {Options{Token: file("long", strings.Repeat("a", maxSecret+1))}, "limit"},
		"lines":        {Options{Token: file("lines", "a\nb")}, "one line"},
		"empty":        {Options{Token: file("empty", "")}, "one line"},
		"seed":         {Options{Seed: file("seed", string(seed))}, ""},
		"bad seed":     {Options{Seed: file("bad", "SUx")}, "bad"},
		"authorities":  {Options{CA: file("ca", "x")}, "no certificate"},
		"certificate":  {Options{Cert: file("cert", "x")}, ""},
		"missing file": {Options{Token: filepath.Join(dir, "none")}, "none"},
	} {
		_, err := credentials(c.opt)
		if name == "certificate" {
			if err == nil {
				t.Error("a certificate without a key is accepted")
			}
			continue
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestDecodeResult(t *testing.T) {
	const id = "abc"
	text := `{"job":"abc","worker":"w","outputs":{}}`
	for data, want := range map[string]string{text: "", text + strings.Repeat(" ", maxResult-len(text)): "", text + strings.Repeat(" ", maxResult-len(text)+1): "limit", "{": "result of", `{"job":"abd"}`: "got that of",
		`{"job":"abc","outputs":{"a":"b"}}`: "invalid digest"} {
		_, err := decodeResult(id, []byte(data))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.40s: got %v, want %q", data, err, want)
		}
	}
}

// A result above the limit is that of a failed job.
func TestEncodeResult(t *testing.T) {
	r := Result{Job: "abc", Outputs: map[string]string{"a": strings.Repeat("a", 64)}}
	empty, err := r.encode()
	if err != nil {
		t.Fatal(err)
	}
	for size, failed := range map[int]bool{maxResult: false, maxResult + 1: true} {
		r.Tail = strings.Repeat("a", size-len(empty)-len(`,"tail":""`))
		data, err := r.encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeResult("abc", data)
		if err != nil || (got.Err() != nil) != failed || (len(got.Outputs) == 0) != failed {
			t.Errorf("%d bytes: got %.200v, %v", size, got, err)
		}
	}
}

func TestAgain(t *testing.T) {
	n := 0
	if err := again(t.Context(), func() error {
		if n++; n < 3 {
			return errors.New("once more")
		}
		return nil
	}); err != nil || n != 3 {
		t.Errorf("got %v after %d calls", err, n)
	}
	end := errors.New("end")
	if err := again(t.Context(), func() error { n++; return final{end} }); !errors.Is(err, end) || n != 4 {
		t.Errorf("got %v after %d calls", err, n)
	}
}

func TestTail(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no sh")
	}
	for _, n := range []int{maxTail - 1, maxTail, maxTail + 1} {
		c := Command{Program: "/bin/sh"}
		text, err := c.run(t.Context(), t.TempDir(), Job{Args: []string{"-c", fmt.Sprintf("head -c %d /dev/zero | tr '\\0' a", n)}})
		if err != nil || len(text) != min(n, maxTail) {
			t.Errorf("%d bytes of output: got %d, limit maxTail, %v", n, len(text), err)
		}
	}
	if got := describe([]try{{"w", "e"}, {"v", ""}}); got[0] != "e" || !strings.Contains(got[1], "v died") {
		t.Errorf("got %q", got)
	}
}

// The servers drop duplicates for longer than a job without progress waits.
func TestTimes(t *testing.T) {
	if duplicates < 2*defaultWait || presence < 3*time.Second {
		t.Error("the times do not fit")
	}
	if int64(maxBlob) < 1<<30 {
		t.Error("maxBlob is below a checkpoint")
	}
}

// A worker takes the first free folder; a folder has one worker.
func TestPlace(t *testing.T) {
	home := t.TempDir()
	first, lock, err := Place(t.Context(), "", home)
	if err != nil {
		t.Fatal(err)
	}
	second, other, err := Place(t.Context(), "", home)
	if err != nil || first == second || Name(first) == Name(second) {
		t.Fatalf("got %s and %s, %v", first, second, err)
	}
	defer other.Unlock()
	if _, _, err := Place(t.Context(), first, home); err == nil {
		t.Error("two workers in one folder")
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	if again, lock, err := Place(t.Context(), "", home); err != nil || again != first || lock.Unlock() != nil {
		t.Errorf("got %s, %v, want %s", again, err, first)
	}
	if maxPlaces < 2 || maxTrial < MaxSpec {
		t.Error("the limits do not fit")
	}
}
