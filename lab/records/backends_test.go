package records_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/lab/device/evidence"
	"mm-abi.org/mm/lab/records"
	"mm-abi.org/mm/onnx/htp"
)

func digest(c byte) string { return "sha256:" + strings.Repeat(string(c), 64) }

func tensor(sample int, name string, size int64, c byte) evidence.Tensor {
	return evidence.Tensor{Sample: sample, Name: name, DType: "float32", Bytes: size, SHA256: digest(c)}
}

// record returns a device record as a phone leaves it.
func record(t *testing.T, change func(*evidence.Record)) string {
	t.Helper()
	chip := evidence.SoC{Model: 69, Name: "SM8750", Arch: 79}
	r := evidence.Record{
		Time: "2026-01-02T03:04:05Z", Nonce: "00112233",
		Source:  evidence.Source{Lane: "adb", Address: "127.0.0.1:5037", Serial: "R5", Tool: "mm 1.2.0"},
		Device:  evidence.Device{Manufacturer: "Maker", Model: "Phone", Android: "15", ABI: "arm64-v8a", Machine: "aarch64", SoC: "SM8750"},
		SoC:     chip,
		Runtime: evidence.Runtime{Runner: digest('a'), GoArch: "arm64", Build: "v2.47.0.260601114230"},
		Binary:  evidence.Binary{SHA256: digest('b'), Bytes: 1000, Build: "v2.47.0.260601114230", SoC: chip, Graph: "main"},
		Inputs:  []evidence.Tensor{tensor(0, "x", 64, '1'), tensor(1, "x", 64, '2')},
		Outputs: []evidence.Tensor{tensor(0, "y", 32, '3'), tensor(1, "y", 32, '4')},
		Samples: 2, Drawn: true,
		Reference: &evidence.Reference{Engine: "core/graph", Model: digest('c'),
			Outputs: []evidence.Tensor{tensor(0, "y", 32, '5'), tensor(1, "y", 32, '6')}},
		Cosine: new(0.99997), HVXThreads: new(4), FP16Grid: &evidence.Grid{Applies: true, Values: 16},
		Times: &evidence.Times{Load: 90000, Infer: 700, Inferences: 10},
		Signs: []string{},
	}
	for _, name := range evidence.Checks() {
		r.Checks = append(r.Checks, evidence.Check{Name: name, Outcome: evidence.Pass})
	}
	if change != nil {
		change(&r)
	}
	if err := r.Sign(maker, maker.KeyID()); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "record.json")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t *testing.T, dir string) *records.Registry {
	t.Helper()
	r, err := records.Open(dir, htp.KnownChips(), []evidence.Verifier{maker})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Without evidence nothing that requires confirmation is routable.
func TestFailsClosed(t *testing.T) {
	r := open(t, t.TempDir())
	for _, chip := range []string{"", "SM8750", "sm8650", "SM9999", "soc:69", "SM8750 "} {
		if r.ConfirmedFor("litert_qnn", chip) || slices.Contains(r.Routable(records.Inference, chip), "litert_qnn") {
			t.Errorf("%q: confirmed", chip)
		}
	}
	if diff := cmp.Diff([]string{"fallback_cpu"}, r.Routable(records.Frozen, "")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"vulkan_gpu", "fallback_cpu"}, r.Routable(records.Frozen, "SM8750")); diff != "" {
		t.Error(diff)
	}
}

// A record of MaxEvidence bytes promotes, a longer one does not.
func TestMaxEvidence(t *testing.T) {
	data, err := os.ReadFile(record(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "record.json")
	for n, ok := range map[int]bool{records.MaxEvidence: true, records.MaxEvidence + 1: false} {
		if err := os.WriteFile(path, append(data[:len(data):len(data)], bytes.Repeat([]byte(" "), n-len(data))...), 0o600); err != nil {
			t.Fatal(err)
		}
		if c, err := open(t, t.TempDir()).Promote(t.Context(), "litert_qnn", path); (err == nil) != ok {
			t.Errorf("%d bytes: %+v, %v", n, c, err)
		}
	}
}

// A record promotes its chip, by any of the chip's names, and no other chip, also when the
// registry is opened again.
func TestPromote(t *testing.T) {
	dir := t.TempDir()
	r, late := open(t, dir), []*records.Registry{open(t, dir)}
	path := record(t, nil)
	c, err := r.Promote(context.Background(), "litert_qnn", path)
	if err != nil || c.SoC != "SM8750" {
		t.Fatalf("%+v, %v", c, err)
	}
	if again, err := r.Promote(context.Background(), "litert_qnn", path); err != nil || again != c {
		t.Errorf("%+v, %v", again, err)
	}
	for _, r := range []*records.Registry{r, open(t, dir)} {
		for chip, want := range map[string]bool{"SM8750": true, "sm8750": true, "soc:69": true, "SM8650": false, "SM8850": false, "": false, "SM9999": false} {
			if got := r.ConfirmedFor("litert_qnn", chip); got != want {
				t.Errorf("%q: %v", chip, got)
			}
		}
		if diff := cmp.Diff([]string{"vulkan_gpu", "litert_qnn", "fallback_cpu"}, r.Routable(records.Frozen, "SM8750")); diff != "" {
			t.Error(diff)
		}
		if n := len(r.Entries[3].Confirmed); n != 1 {
			t.Errorf("%d confirmations", n)
		}
	}
	// A row that another process has written is not written again.
	for _, r := range late {
		if got, err := r.Promote(context.Background(), "litert_qnn", path); err != nil || got != c {
			t.Errorf("%+v, %v", got, err)
		}
	}
	rows, err := os.ReadFile(filepath.Join(dir, records.File))
	if err != nil || bytes.Count(rows, []byte("\n")) != 1 {
		t.Errorf("%s, %v", rows, err)
	}
	// If the record is missing or replaced, the confirmation is void.
	file := filepath.Join(dir, records.EvidenceDir, c.Evidence+".json")
	other, _ := os.ReadFile(record(t, func(r *evidence.Record) { r.Nonce = "44" }))
	for _, step := range []struct {
		why    string
		change func() error
	}{
		{"record changed", func() error { return os.WriteFile(file, other, 0o644) }},
		{"record missing", func() error { return os.Remove(file) }},
	} {
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		if r := open(t, dir); r.ConfirmedFor("litert_qnn", "SM8750") || len(r.Entries[3].Refused) != 1 || !strings.Contains(r.Entries[3].Refused[0], step.why) {
			t.Errorf("%s: %+v", step.why, r.Entries[3])
		}
	}
	// A row holds either a backend or a promotion.
	both := `{"backend":{"id":"x","family":"cpu","capabilities":["inference"]},` + strings.TrimPrefix(string(rows), "{")
	if err := os.WriteFile(filepath.Join(dir, records.File), []byte(both), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := records.Open(dir, htp.KnownChips(), []evidence.Verifier{maker}); err == nil || !strings.Contains(err.Error(), "either a backend or a promotion") {
		t.Errorf("%s: %v", both, err)
	}
}

// Simulated records never promote, nor do lines written to the file by hand.
func TestNeverPromotes(t *testing.T) {
	for name, change := range map[string]func(*evidence.Record){
		"simulated":  func(r *evidence.Record) { r.Simulated = true },
		"a sign":     func(r *evidence.Record) { r.Signs = []string{"ro.kernel.qemu"} },
		"for a PC":   func(r *evidence.Record) { r.Runtime.GoArch = "amd64" },
		"no cosine":  func(r *evidence.Record) { r.Cosine = nil },
		"no chip":    func(r *evidence.Record) { r.Device.SoC = "" },
		"other chip": func(r *evidence.Record) { r.Device.SoC, r.SoC.Name, r.Binary.SoC.Name = "SM9999", "SM9999", "SM9999" },
	} {
		dir := t.TempDir()
		path := record(t, change)
		r := open(t, dir)
		if c, err := r.Promote(context.Background(), "litert_qnn", path); err == nil {
			t.Errorf("%s: %+v", name, c)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: stored %v", name, left)
		}
		// A record copied into the folder is verified as well.
		data, _ := os.ReadFile(path)
		sum := sha(data)
		if err := os.MkdirAll(filepath.Join(dir, records.EvidenceDir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, records.EvidenceDir, sum+".json"), data, 0o644); err != nil {
			t.Fatal(err)
		}
		line := `{"promoted":"litert_qnn","evidence":"` + sum + `"}` + "\n"
		if err := os.WriteFile(filepath.Join(dir, records.File), []byte(line), 0o644); err != nil {
			t.Fatal(err)
		}
		if r := open(t, dir); r.ConfirmedFor("litert_qnn", "SM8750") || r.ConfirmedFor("litert_qnn", "SM9999") || len(r.Entries[3].Confirmed) != 0 {
			t.Errorf("%s: confirmed by a manual line", name)
		}
	}
	r := open(t, t.TempDir())
	for _, id := range []string{"android_cpu", "fallback_cpu", "none"} {
		if _, err := r.Promote(context.Background(), id, record(t, nil)); err == nil {
			t.Errorf("%s: promoted", id)
		}
	}
}

// A complete record that no trusted key has signed does not promote; each fault has its own
// error.
func TestSigned(t *testing.T) {
	other := key("other")
	for name, c := range map[string]struct {
		change func(*evidence.Record) error
		why    error
	}{
		"unsigned":         {func(r *evidence.Record) error { r.Signature = nil; return nil }, evidence.ErrUnsigned},
		"untrusted key":    {func(r *evidence.Record) error { return r.Sign(other, other.KeyID()) }, evidence.ErrUntrusted},
		"another key's ID": {func(r *evidence.Record) error { return r.Sign(other, maker.KeyID()) }, evidence.ErrForged},
		"changed, sealed":  {func(r *evidence.Record) error { r.Nonce = "44"; return r.Seal() }, evidence.ErrForged},
		"changed":          {func(r *evidence.Record) error { r.Nonce = "44"; return nil }, evidence.ErrChanged},
	} {
		path := record(t, nil)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var r evidence.Record
		if err := errors.Join(json.Unmarshal(data, &r), c.change(&r)); err != nil {
			t.Fatal(err)
		}
		if data, err = json.Marshal(r); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := open(t, t.TempDir()).Promote(context.Background(), "litert_qnn", path); !errors.Is(err, c.why) {
			t.Errorf("%s: %+v, %v, want %v", name, got, err, c.why)
		}
	}
	// Once the key is no longer trusted, its confirmations are void.
	dir := t.TempDir()
	if c, err := open(t, dir).Promote(context.Background(), "litert_qnn", record(t, nil)); err != nil || c.Key != maker.KeyID() {
		t.Fatalf("%+v, %v", c, err)
	}
	r, err := records.Open(dir, htp.KnownChips(), []evidence.Verifier{other})
	if err != nil || r.ConfirmedFor("litert_qnn", "SM8750") || len(r.Entries[3].Refused) != 1 {
		t.Errorf("%v: %+v", err, r.Entries[3])
	}
}

// key stands in for a key of package registry/sign.
type key string

const maker key = "maker"

func (k key) KeyID() string { return string(k) }

func (k key) SignPayload(typ string, payload []byte) ([]byte, error) {
	return []byte(sha([]byte(string(k) + typ + string(payload)))), nil
}

func (k key) VerifyPayload(typ string, payload, sig []byte) error {
	if want, _ := k.SignPayload(typ, payload); !slices.Equal(want, sig) {
		return errors.New("the signature does not fit")
	}
	return nil
}

// Eligible leaves out an NPU without a record and refuses unknown names.
func TestEligible(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	ids := []string{"litert_qnn", "vulkan_gpu", "fallback_cpu", "host_sim"}
	got, err := r.Eligible(ids, records.Frozen, "SM8750")
	if diff := cmp.Diff([]string{"vulkan_gpu", "fallback_cpu"}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if got, err = r.Eligible(ids, records.Frozen, ""); err != nil || !slices.Equal(got, []string{"fallback_cpu"}) {
		t.Errorf("without a chip: %v, %v", got, err)
	}
	if _, err := r.Promote(context.Background(), "litert_qnn", record(t, nil)); err != nil {
		t.Fatal(err)
	}
	if got, err = r.Eligible(ids, records.Frozen, "sm8750"); err != nil || got[0] != "litert_qnn" {
		t.Errorf("%v, %v", got, err)
	}
	if got, err = r.Eligible(ids, records.Frozen, "SM8650"); err != nil || slices.Contains(got, "litert_qnn") {
		t.Errorf("unconfirmed chip: %v, %v", got, err)
	}
	for name, err := range map[string]error{
		"a backend":    second(r.Eligible([]string{"fallback_cpu", "nonsense"}, records.Frozen, "SM8750")),
		"a chip":       second(r.Eligible(ids, records.Frozen, "SM9999")),
		"a capability": second(r.Eligible(ids, "flying", "SM8750")),
	} {
		if err == nil {
			t.Errorf("accepted unknown %s", name)
		}
	}
}

func second(_ []string, err error) error { return err }

func TestAdd(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	r := open(t, dir)
	if err := r.Add(ctx, records.Backend{ID: "qnn_direct", Family: records.NPU, Confirm: true, Capabilities: []records.Capability{records.Inference}}); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]records.Backend{
		"duplicate":         {ID: "qnn_direct", Family: records.CPU},
		"a built-in":        {ID: "host_sim", Family: records.CPU},
		"no name":           {Family: records.CPU},
		"unconfirmed NPU":   {ID: "n", Family: records.NPU},
		"no family":         {ID: "n"},
		"unknown ability":   {ID: "n", Family: records.CPU, Capabilities: []records.Capability{"flying"}},
		"control character": {ID: "a\x1b", Family: records.CPU},
	} {
		if err := r.Add(ctx, b); err == nil {
			t.Errorf("%s: added", name)
		}
	}
	if r = open(t, dir); len(r.Entries) != len(records.Defaults())+1 || r.Entries[5].ID != "qnn_direct" {
		t.Errorf("%+v", r.Entries)
	}
	for _, text := range []string{"{}\n", `{"promoted":"x","evidence":"y"}` + "\n", `{"confirmed_for_socs":["SM8750"]}` + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, records.File), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := records.Open(dir, htp.KnownChips(), nil); err == nil {
			t.Errorf("%s: read", text)
		}
	}
}

// Of concurrent additions of a backend one succeeds. A file with two equal rows is read.
func TestConfirmAtOnce(t *testing.T) {
	dir := t.TempDir()
	var added atomic.Int32
	var wg sync.WaitGroup
	for range 6 {
		r := open(t, dir)
		wg.Go(func() {
			if r.Add(context.Background(), records.Backend{ID: "own", Family: records.CPU}) == nil {
				added.Add(1)
			}
		})
	}
	wg.Wait()
	if n := added.Load(); n != 1 {
		t.Errorf("added %d times", n)
	}
	path := filepath.Join(dir, records.File)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(data, data...), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := open(t, dir); len(r.Entries) != len(records.Defaults())+1 {
		t.Errorf("%+v", r.Entries)
	}
	other := bytes.Replace(data, []byte(`"cpu"`), []byte(`"gpu"`), 1)
	if err := os.WriteFile(path, append(data, other...), 0o644); err != nil {
		t.Fatal(err)
	}
	if r, err := records.Open(dir, htp.KnownChips(), nil); err == nil {
		t.Errorf("a different backend with its name: %+v", r.Entries)
	}
}

func sha(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
