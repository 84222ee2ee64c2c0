package train

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/core/safetensors"
	"mm-abi.org/mm/train/llm"
)

// saved returns the bytes of a short run's last checkpoint.
func saved(t testing.TB) (cfg Config, corpus *Corpus, data []byte) {
	t.Helper()
	dir := t.TempDir()
	cfg = smallConfig(t, dir)
	cfg.Stop.Steps = 3
	corpus = prepare(t, cfg, dir)
	run(t, cfg, corpus, Options{Dir: filepath.Join(dir, "run")})
	data, err := os.ReadFile(filepath.Join(dir, "run", LastFile))
	if err != nil {
		t.Fatal(err)
	}
	return cfg, corpus, data
}

// rewrite changes a checkpoint's header and tensors.
func rewrite(t testing.TB, data []byte, header func(*Header, *LMHeader), tensors func([]safetensors.Source) []safetensors.Source) []byte {
	t.Helper()
	f, err := safetensors.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	h, err := parseHeader(f.Metadata[metaKey])
	if err != nil {
		t.Fatal(err)
	}
	lm, err := parseLM(h)
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		header(&h, &lm)
	}
	if h.Task, err = json.Marshal(lm); err != nil {
		t.Fatal(err)
	}
	meta, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var all []safetensors.Source
	for _, x := range f.Tensors {
		all = append(all, safetensors.Source{Name: x.Name, DType: x.DType, Shape: x.Shape, Data: safetensors.Bytes(x.Data)})
	}
	if tensors != nil {
		all = tensors(all)
	}
	var b bytes.Buffer
	if _, err := safetensors.Write(&b, map[string]string{metaKey: string(meta)}, all); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// drop removes a tensor.
func drop(name string) func([]safetensors.Source) []safetensors.Source {
	return func(all []safetensors.Source) []safetensors.Source {
		var kept []safetensors.Source
		for _, s := range all {
			if s.Name != name {
				kept = append(kept, s)
			}
		}
		return kept
	}
}

// transposed swaps the dimensions of a tensor.
func transposed(name string) func([]safetensors.Source) []safetensors.Source {
	return func(all []safetensors.Source) []safetensors.Source {
		for i := range all {
			if all[i].Name == name {
				all[i].Shape = []int{all[i].Shape[1], all[i].Shape[0]}
			}
		}
		return all
	}
}

func TestResumeRefused(t *testing.T) {
	_, corpus, good := saved(t)
	path := filepath.Join(t.TempDir(), "c.safetensors")
	resume := func(data []byte, c *Corpus) error {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		tr, err := ResumeLM(path, c, Options{Threads: 1, Resumed: &Resumed{Stop: Stop{Steps: 9}}})
		if err == nil {
			tr.Close()
		}
		return err
	}
	if err := resume(rewrite(t, good, nil, nil), corpus); err != nil {
		t.Fatal(err)
	}
	other := *corpus
	other.Text = "other"
	for name, k := range map[string]struct {
		data []byte
		c    *Corpus
		say  string
	}{
		"cut":             {good[:len(good)-1], corpus, "opening checkpoint"},
		"no checkpoint":   {bytes.Replace(good, []byte(metaKey), []byte("mm.chickpoint"), 1), corpus, "not a checkpoint"},
		"other text":      {good, &other, "text or tokenizer differs"},
		"weights only":    {rewrite(t, good, func(h *Header, _ *LMHeader) { h.Resumable = false }, nil), corpus, "only weights"},
		"version":         {rewrite(t, good, func(h *Header, _ *LMHeader) { h.Version = 7 }, nil), corpus, "version 7"},
		"model":           {rewrite(t, good, func(_ *Header, h *LMHeader) { h.Model.Hidden++ }, nil), corpus, "does not match"},
		"huge model":      {rewrite(t, good, func(_ *Header, h *LMHeader) { h.Config.Model.Dim = 1 << 40 }, nil), corpus, "dim"},
		"negative step":   {rewrite(t, good, func(h *Header, _ *LMHeader) { h.Step = -1 }, nil), corpus, "negative count"},
		"position":        {rewrite(t, good, func(_ *Header, h *LMHeader) { h.Position.Next = 1 << 30 }, nil), corpus, "position"},
		"freeze plan":     {rewrite(t, good, func(_ *Header, h *LMHeader) { h.Config.Freeze.Head = true }, nil), corpus, "trainable tensors"},
		"weight missing":  {rewrite(t, good, nil, drop("blk.1.attn_k.weight")), corpus, `missing tensor "blk.1.attn_k.weight"`},
		"weight's shape":  {rewrite(t, good, nil, transposed("blk.1.ffn_up.weight")), corpus, "want F32"},
		"moments missing": {rewrite(t, good, nil, drop("optimizer.output.weight.v")), corpus, "optimizer.output.weight.v"},
	} {
		if err := resume(k.data, k.c); err == nil || !strings.Contains(err.Error(), k.say) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Resuming detects a sealed tensor that was replaced in the file.
func TestResumeChecksSeals(t *testing.T) {
	dir := t.TempDir()
	cfg := smallConfig(t, dir)
	cfg.Stop.Steps, cfg.Freeze.Policy = 3, "boundary"
	corpus := prepare(t, cfg, dir)
	run(t, cfg, corpus, Options{Dir: dir})
	path := filepath.Join(dir, LastFile)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data = rewrite(t, data, func(h *Header, _ *LMHeader) { h.Digests = nil }, func(all []safetensors.Source) []safetensors.Source {
		for i := range all {
			if all[i].Name == "blk.1.attn_v.weight" {
				b := append(safetensors.Bytes(nil), all[i].Data.(safetensors.Bytes)...)
				b[17] ^= 4
				all[i].Data = b
			}
		}
		return all
	})
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ResumeLM(path, corpus, Options{}); err == nil || !strings.Contains(err.Error(), "blk.1.attn_v.weight") {
		t.Errorf("%v", err)
	}
}

// A flipped bit is noticed in every tensor and in the header. A checkpoint
// without digests, as older versions wrote, resumes.
func TestDamagedCheckpoint(t *testing.T) {
	_, corpus, good := saved(t)
	path := filepath.Join(t.TempDir(), "c.safetensors")
	resume := func(data []byte) error {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		tr, err := ResumeLM(path, corpus, Options{Threads: 1})
		if err == nil {
			err = tr.Close()
		}
		return err
	}
	f, err := safetensors.Parse(good)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range f.Tensors {
		bad := bytes.Clone(good)
		bad[bytes.Index(bad, x.Data)+len(x.Data)/2] ^= 1
		err := resume(bad)
		if x.Name == tokenizerName { // read by other commands
			c, e := OpenLM(path)
			if e != nil {
				t.Fatal(e)
			}
			_, err = c.Tokenizer()
			c.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "digest mismatch") {
			t.Errorf("%s: %v", x.Name, err)
		}
	}
	rate := []byte(`\"batch_size\":`)
	bad := bytes.Clone(good)
	bad[bytes.Index(bad, rate)+len(rate)] ^= 1
	if err := resume(bad); err == nil || !strings.Contains(err.Error(), "header: digest mismatch") {
		t.Errorf("header: %v", err)
	}
	if err := resume(rewrite(t, good, func(h *Header, _ *LMHeader) { h.Digests = nil }, nil)); err != nil {
		t.Error(err)
	}
}

// A recipe resumes only the run that has it: stops, threads and the names of
// files may change.
func TestEdited(t *testing.T) {
	cfg, corpus, good := saved(t)
	path := filepath.Join(t.TempDir(), "c.safetensors")
	if err := os.WriteFile(path, good, 0o600); err != nil {
		t.Fatal(err)
	}
	for place, edit := range map[string]func(c *Config){
		"/batch_size":         func(c *Config) { c.BatchSize++ },
		"/seq_len":            func(c *Config) { c.SeqLen-- },
		"/accumulate":         func(c *Config) { c.Accumulate = 3 },
		"/precision":          func(c *Config) { c.Precision = BF16 },
		"/optimizer/name":     func(c *Config) { c.Optimizer.Name = "lion" },
		"/optimizer/lr":       func(c *Config) { c.Optimizer.Rate = 1 },
		"/model/layers":       func(c *Config) { c.Model.Layers++ },
		"/model/dim":          func(c *Config) { c.Model.Dim *= 2 },
		"/clip":               func(c *Config) { c.Clip = 7 },
		"/seed":               func(c *Config) { c.Seed++ },
		"/freeze/norms":       func(c *Config) { c.Freeze.Norms = true },
		"/base":               func(c *Config) { c.Base = "other.gguf" },
		"/eval/every":         func(c *Config) { c.Eval.Every += 5 },
		"/lora":               func(c *Config) { c.LoRA = &llm.LoRA{Rank: 2} },
		"":                    func(c *Config) { c.Stop.Steps, c.Threads = 4, 2 },
		"(the same)":          func(*Config) {},
		"(moved files)":       func(c *Config) { c.Data.Files = []string{"moved.txt"} },
		"(a spelt default)":   func(c *Config) { c.LogEvery = c.WithDefaults().LogEvery },
		"(another tokenizer)": func(c *Config) { c.Tokenizer.File = "moved.gguf" },
	} {
		c := cfg
		edit(&c)
		c = c.WithDefaults()
		tr, err := ResumeLM(path, corpus, Options{Resumed: &Resumed{c, c.Stop, c.Threads}})
		if err == nil {
			if tr.Trainer.cfg.Stop != c.Stop || tr.task.cfg.Threads != c.Threads {
				t.Errorf("%s: got stop %+v and %d threads", place, tr.Trainer.cfg.Stop, tr.task.cfg.Threads)
			}
			tr.Close()
		}
		var found bool
		for _, f := range Faults(err) {
			found = found || f.Path == place && strings.Contains(f.Error(), "differs from that of the run to resume")
		}
		if same := !strings.HasPrefix(place, "/"); same != (err == nil) || !same && !found {
			t.Errorf("%s: %v", place, err)
		}
	}
}

// A checkpoint contains its tokenizer, and equal runs write equal checkpoints
// except for times.
func TestCheckpointContents(t *testing.T) {
	cfg, corpus, data := saved(t)
	path := filepath.Join(t.TempDir(), "c.safetensors")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := OpenLM(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	tok, err := c.Tokenizer()
	if err != nil {
		t.Fatal(err)
	}
	if tok.Size() != corpus.Tokenizer.Size() || c.Header.Step != 3 || c.LM.Config.Model.Dim != cfg.Model.Dim || c.LM.Config.Data.Files[0] != "stories.txt" {
		t.Errorf("%d tokens, %+v", tok.Size(), c.Header)
	}
	still := func(h *Header, _ *LMHeader) { h.Seconds, h.CPU, h.Since.Busy = 0, 0, 0 }
	_, _, again := saved(t)
	if !bytes.Equal(rewrite(t, data, still, nil), rewrite(t, again, still, nil)) {
		t.Error("equal runs wrote different checkpoints")
	}
}

func FuzzHeader(f *testing.F) {
	_, _, data := saved(f)
	file, err := safetensors.Parse(data)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(file.Metadata[metaKey])
	f.Add(`{"version":1}`)
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		h, err := parseHeader(s)
		if err != nil {
			return
		}
		if lm, err := parseLM(h); err == nil {
			if err := lm.Config.Validate(); err != nil {
				t.Error(err)
			}
		}
	})
}
