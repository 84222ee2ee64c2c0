package farm_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/farm"
)

const mmImage = "registry.example/mm@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// small are the options of a set.
func small() farm.KubernetesOptions {
	return farm.KubernetesOptions{Image: mmImage, Secret: "mm-jobs", Queue: "team", Workers: 3, MilliCPU: 1500, Memory: 2 << 30, Disk: 1 << 30}
}

// nightFile writes a file of jobs with its files.
func nightFile(t testing.TB) string {
	dir := folder(t, map[string]string{"night.jobs.yaml": "version: 1\nname: night\nfiles: [bin]\neval: {model: m.gguf, tasks: [tasks/a.yaml], shards: 2}\n", "m.gguf": "GGUF\x00\xff", "tasks/a.yaml": "a\n", "bin": "x\r\n"})
	return filepath.Join(dir, "night.jobs.yaml")
}

// objects parses manifests by kind.
func objects(t testing.TB, data []byte) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{}
	d := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var one map[string]any
		if err := d.Decode(&one); err != nil {
			break
		}
		name := one["metadata"].(map[string]any)["name"].(string)
		out[one["kind"].(string)+" "+name] = one
	}
	return out
}

// at returns a member of nested mappings and sequences.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			s, _ := v.([]any)
			if p >= len(s) {
				return nil
			}
			v = s[p]
		}
	}
	return v
}

// The manifests of a batch: a server, a driver with the files, workers, all pinned,
// restricted, in Kueue's queue, with its quota.
func TestKubernetes(t *testing.T) {
	file := nightFile(t)
	m, err := farm.Kubernetes(file, small())
	if err != nil {
		t.Fatal(err)
	}
	again, err := farm.Kubernetes(file, small())
	if err != nil || !bytes.Equal(m.Set, again.Set) || !bytes.Equal(m.Queues, again.Queues) {
		t.Errorf("a second export differs: %v", err)
	}
	all := objects(t, m.Set)
	set := all["JobSet night"]
	if got := at(set, "metadata", "labels", "kueue.x-k8s.io/queue-name"); got != "team" || at(set, "spec", "suspend") != true {
		t.Errorf("got queue %v, suspend %v", got, at(set, "spec", "suspend"))
	}
	jobs := at(set, "spec", "replicatedJobs").([]any)
	var roles []string
	for i, j := range jobs {
		spec := at(j, "template", "spec", "template", "spec")
		c := at(spec, "containers", 0)
		roles = append(roles, at(j, "name").(string))
		if at(c, "image") != mmImage || at(c, "securityContext", "readOnlyRootFilesystem") != true || at(spec, "securityContext", "runAsNonRoot") != true || at(c, "resources", "limits", "memory") == nil || at(c, "resources", "requests", "cpu") == nil {
			t.Errorf("%s: got %v", roles[i], c)
		}
		if n, want := at(j, "template", "spec", "completions"), map[string]int{"worker": 3}[roles[i]]; n != max(want, 1) || at(j, "template", "spec", "completionMode") != "Indexed" {
			t.Errorf("%s: got %v completions", roles[i], n)
		}
		if depends := at(j, "dependsOn", 0, "name"); (depends == "server") != (i > 0) {
			t.Errorf("%s: depends on %v", roles[i], depends)
		}
	}
	if !slices.Equal(roles, []string{"server", "driver", "worker"}) || at(set, "spec", "successPolicy", "targetReplicatedJobs", 0) != "driver" {
		t.Errorf("got %v", roles)
	}
	driver := at(jobs[1], "template", "spec", "template", "spec", "containers", 0)
	if diff := cmp.Diff([]any{"jobs", "run", "night.jobs.yaml", "--out", "/state/out", "--server", "tls://night-server-0-0.night:4222", "--token", "/secret/token", "--ca", "/secret/ca.crt"}, at(driver, "args")); diff != "" {
		t.Error(diff)
	}
	mounted := map[string]string{}
	for _, v := range at(driver, "volumeMounts").([]any) {
		if at(v, "name") == "files" {
			mounted[at(v, "mountPath").(string)] = at(v, "subPath").(string)
		}
	}
	files := all["ConfigMap "+at(jobs[1], "template", "spec", "template", "spec", "volumes", 2, "configMap", "name").(string)]
	if got := at(files, "data", mounted["/work/tasks/a.yaml"]); got != "a\n" || at(files, "immutable") != true {
		t.Errorf("got %v of %v", got, files)
	}
	if got := at(files, "binaryData", mounted["/work/m.gguf"]); got != "R0dVRgD/" {
		t.Errorf("got %v", got)
	}
	if got := at(files, "binaryData", mounted["/work/bin"]); got != "eA0K" {
		t.Errorf("a carriage return: got %v", got)
	}
	queues := objects(t, m.Queues)
	quota := at(queues["ClusterQueue team"], "spec", "resourceGroups", 0, "flavors", 0, "resources")
	if at(quota, 0, "nominalQuota") != "5500m" || at(quota, 1, "nominalQuota") != "8192Mi" || at(queues["LocalQueue team"], "spec", "clusterQueue") != "team" {
		t.Errorf("got %v", quota)
	}
	if strings.Contains(string(m.Set), "password") {
		t.Error("a batch reads the password of a key")
	}
}

// A study runs by mm experiment, continues after a kill, and reads its key from the secret.
func TestKubernetesStudy(t *testing.T) {
	dir := folder(t, map[string]string{
		"s.study.yaml":  "name: wall\nrecipe: r/recipe.yaml\ntokens: 2000\nseeds: [1]\nmutations: [{kind: rate, values: [0.01]}]\n",
		"r/recipe.yaml": "model: {vocab_size: 300, dim: 16, layers: 1, heads: 2, context: 16}\ndata: {files: [t.jsonl]}\ntokenizer: {control: [\"<|endoftext|>\"], eos: \"<|endoftext|>\"}\nbatch_size: 4\noptimizer: {name: adamw, lr: 1.0e-4}\nstop: {steps: 1}\n",
		"r/t.jsonl":     "{\"text\": \"a\"}\n",
	})
	o := small()
	o.Queue, o.Servers, o.FileImage, o.Level, o.GPUs, o.Namespace = "", "tls://queue.example:4222", mmImage, "avx2", 2, "lab"
	m, err := farm.Kubernetes(filepath.Join(dir, "s.study.yaml"), o)
	if err != nil {
		t.Fatal(err)
	}
	set := objects(t, m.Set)["JobSet wall"]
	jobs := at(set, "spec", "replicatedJobs").([]any)
	if len(jobs) != 2 || at(jobs[0], "dependsOn") != nil || m.Queues != nil || at(set, "spec", "suspend") != nil || at(set, "metadata", "namespace") != "lab" {
		t.Errorf("got %v", set)
	}
	spec := at(jobs[0], "template", "spec", "template", "spec")
	if diff := cmp.Diff([]any{"experiment", "run", "s.study.yaml", "--out", "/state/run", "--continue", "--sign", "/secret/run.key", "--jobs", "tls://queue.example:4222", "--jobs-token", "/secret/token", "--jobs-ca", "/secret/ca.crt"}, at(spec, "containers", 0, "args")); diff != "" {
		t.Error(diff)
	}
	env := at(spec, "containers", 0, "env")
	if at(env, 1, "value") != "avx2" || at(env, 2, "valueFrom", "secretKeyRef", "key") != "password" || at(env, 2, "value") != nil {
		t.Errorf("got %v", env)
	}
	if at(spec, "volumes", 2, "image", "reference") != mmImage {
		t.Errorf("got %v", at(spec, "volumes"))
	}
	if at(jobs[1], "template", "spec", "template", "spec", "containers", 0, "resources", "limits", "nvidia.com/gpu") != 2 {
		t.Error("no GPUs")
	}
	o.FileImage = ""
	if m, err = farm.Kubernetes(filepath.Join(dir, "s.study.yaml"), o); err != nil || !strings.Contains(string(m.Set), "mountPath: /work/r/t.jsonl") {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "r", "recipe.yaml"), []byte("model: {vocab_size: 300, dim: 16, layers: 1, heads: 2, context: 16}\ndata: {files: [../../t.jsonl]}\ntokenizer: {control: [\"<|endoftext|>\"], eos: \"<|endoftext|>\"}\nbatch_size: 4\noptimizer: {name: adamw, lr: 1.0e-4}\nstop: {steps: 1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := farm.Kubernetes(filepath.Join(dir, "s.study.yaml"), o); err == nil || !strings.Contains(err.Error(), "below the folder of the study") {
		t.Errorf("got %v", err)
	}
}

// Options beyond their limits, images without a digest and files too large are refused.
func TestKubernetesRefused(t *testing.T) {
	file := nightFile(t)
	for want, change := range map[string]func(*farm.KubernetesOptions){
		"--image":            func(o *farm.KubernetesOptions) { o.Image = "registry.example/mm:latest" },
		"--file-image":       func(o *farm.KubernetesOptions) { o.FileImage = "registry.example/files" },
		"--secret":           func(o *farm.KubernetesOptions) { o.Secret = "" },
		"--queue":            func(o *farm.KubernetesOptions) { o.Queue = "Team" },
		"--namespace":        func(o *farm.KubernetesOptions) { o.Namespace = "-a" },
		"want --file-image":  func(o *farm.KubernetesOptions) { o.FileImage, o.FileClaim = mmImage, "c" },
		"got 0 workers":      func(o *farm.KubernetesOptions) { o.Workers = 0 },
		"got 10001 workers":  func(o *farm.KubernetesOptions) { o.Workers = farm.MaxReplicas + 1 },
		"67108863 bytes, 0":  func(o *farm.KubernetesOptions) { o.Memory = farm.MinSetMemory - 1 },
		"want tls://":        func(o *farm.KubernetesOptions) { o.Servers = "nats://127.0.0.1:4222" },
		"invalid address of": func(o *farm.KubernetesOptions) { o.Servers = "tls://" },
	} {
		o := small()
		change(&o)
		if _, err := farm.Kubernetes(file, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	o := small()
	o.Workers, o.Memory = farm.MaxReplicas, farm.MinSetMemory
	if _, err := farm.Kubernetes(file, o); err != nil {
		t.Error(err)
	}
	for n, fits := range map[int]bool{farm.MaxMapBytes - 101: true, farm.MaxMapBytes - 50: false, farm.MaxMapBytes + 1: false} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(file), "m.gguf"), make([]byte, n), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := farm.Kubernetes(file, small())
		list, _ := diag.From(err)
		if (err == nil) != fits || !fits && (len(list) != 1 || list[0].Code != diag.BatchFile || !strings.Contains(err.Error(), "--file-image")) {
			t.Errorf("%d bytes: got %v", n, err)
		}
	}
	for n, fits := range map[int]bool{farm.MaxMapFiles: true, farm.MaxMapFiles + 1: false} {
		many := map[string]string{"m.jobs.yaml": "version: 1\nname: many\nfiles: [d]\ncommands: [{name: a, run: [version]}]\n"}
		for i := range n - 1 {
			many["d/"+strings.Repeat("x", i+1)] = ""
		}
		if _, err := farm.Kubernetes(filepath.Join(folder(t, many), "m.jobs.yaml"), small()); (err == nil) != fits {
			t.Errorf("%d files: got %v", n, err)
		}
	}
	for n, fits := range map[int]bool{farm.MaxSetName: true, farm.MaxSetName + 1: false} {
		dir := folder(t, map[string]string{"m.jobs.yaml": "version: 1\nname: " + strings.Repeat("a", n) + "\ncommands: [{name: a, run: [version]}]\n"})
		if _, err := farm.Kubernetes(filepath.Join(dir, "m.jobs.yaml"), small()); (err == nil) != fits {
			t.Errorf("a name of %d characters: got %v", n, err)
		}
	}
	if _, err := farm.Kubernetes(filepath.Join(t.TempDir(), "absent"), small()); err == nil {
		t.Error("a missing file has no error")
	}
}
