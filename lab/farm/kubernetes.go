package farm

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/study"
	"mm-abi.org/mm/schemas"
)

// KubernetesOptions describe the manifests of a batch or a study.
type KubernetesOptions struct {
	Image     string // of mm, with its digest
	Secret    string // with token, tls.crt, tls.key and ca.crt; for a study also run.key and password
	Queue     string // Kueue's local queue; empty: none
	Namespace string // empty: that of kubectl
	Servers   string // tls:// URLs of an existing queue; empty: a server in the set
	FileImage string // OCI image with the files, with its digest; empty: a ConfigMap
	FileClaim string // PersistentVolumeClaim with the files
	Level     string // of kernels on all machines (MM_CPU); empty: that of each
	Workers   int
	MilliCPU  int   // of a worker
	Memory    int64 // of a worker, in bytes
	GPUs      int   // of a worker
	Disk      int64 // of the state of the driver and the server each, in bytes
}

// The limits of manifests.
const (
	maxMapBytes  = 768 << 10 // of files in a ConfigMap, which holds 1 MiB with its keys and base64
	maxMapFiles  = 64        // mounted one by one
	maxSetName   = 40        // of 63 in the names of hosts
	maxReplicas  = 10000
	minSetMemory = 64 << 20
)

// The folders in the containers.
const (
	filesAt  = "/work"
	stateAt  = "/state"
	secretAt = "/secret"
)

// Manifests are the documents of a set of jobs on Kubernetes.
type Manifests struct {
	Set    []byte // of the user: volumes, network policy, JobSet
	Queues []byte // of the administrator, for Kueue; empty without a queue
}

// Write writes the documents to a folder and returns the names of the files.
func (m Manifests) Write(dir string) ([]string, error) {
	d, err := fsx.Create(dir, 0o755, fsx.Options{})
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names := []string{"jobset.yaml"}
	err = d.WriteFile(names[0], m.Set, 0o644)
	if len(m.Queues) > 0 {
		names = append(names, "queues.yaml")
		err = errors.Join(err, d.WriteFile(names[1], m.Queues, 0o644))
	}
	return names, err
}

// planned is the work of the driver.
type planned struct {
	name  string
	args  []string
	dir   string
	files []string
	study bool
}

// Kubernetes returns manifests that run a batch or a study: a JobSet of a server of the
// queue, a driver that submits the jobs and keeps the results, and workers. The same file and
// options yield the same bytes.
func Kubernetes(file string, opt KubernetesOptions) (Manifests, error) {
	p, err := readPlanned(file)
	if err == nil {
		err = opt.check(p)
	}
	if err != nil {
		return Manifests{}, err
	}
	k := &kube{KubernetesOptions: opt, planned: p}
	docs, err := k.documents()
	if err != nil {
		return Manifests{}, err
	}
	var m Manifests
	if m.Set, err = documents(docs); err == nil && opt.Queue != "" {
		m.Queues, err = documents(k.queues())
	}
	return m, err
}

// readPlanned reads a file of jobs or a study.
func readPlanned(file string) (p planned, err error) {
	data, list := schemas.ReadFile(file, diag.Unreadable)
	if list.Failed() {
		return p, list.Err()
	}
	p.dir = filepath.Dir(file)
	base := filepath.Base(file)
	if doc, _ := schemas.Parse(file, data); doc != nil {
		if kind, _ := doc.Detect(); kind != schemas.Study {
			return batchPlanned(p, file, data)
		}
	}
	s, err := study.Read(file)
	if err != nil {
		return p, err
	}
	p.name, p.study = s.Name, true
	p.files, p.args = []string{base, s.Recipe}, []string{"experiment", "run", base, "--out", stateAt + "/run", "--continue", "--sign", secretAt + "/run.key"}
	for _, name := range append(slices.Concat(s.Base.Data.Files, s.Base.Data.HeldFiles), s.Base.Tokenizer.File) {
		if name != "" {
			p.files = append(p.files, path.Join(path.Dir(filepath.ToSlash(s.Recipe)), filepath.ToSlash(name)))
		}
	}
	for _, name := range p.files {
		if !schemas.ValidPath(name) {
			return p, batchFault(file, fmt.Sprintf("%q: want a file below the folder of the study", name))
		}
	}
	return p, nil
}

func batchPlanned(p planned, file string, data []byte) (planned, error) {
	b, err := ParseBatch(file, data)
	if err != nil {
		return p, err
	}
	base := filepath.Base(file)
	p.name, p.files, p.args = b.Name, []string{base}, []string{"jobs", "run", base, "--out", stateAt + "/out"}
	for _, s := range b.Steps {
		p.files = append(p.files, s.Files...)
	}
	return p, nil
}

func batchFault(file, detail string) error {
	var list diag.List
	list.Add(diag.BatchFile, diag.Pos{File: file}, detail, "")
	return list.Err()
}

var (
	pinned = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[a-z0-9][A-Za-z0-9._:/-]*@sha256:[0-9a-f]{64}$`)
	})
	dns = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`) })
)

// check reports the first fault of the options.
func (o KubernetesOptions) check(p planned) error {
	for _, f := range [][2]string{{"--image", o.Image}, {"--file-image", o.FileImage}} {
		flag, image := f[0], f[1]
		if (image != "" || flag == "--image") && !pinned().MatchString(image) {
			return fmt.Errorf("%s %q: want REPOSITORY@sha256:DIGEST", flag, image)
		}
	}
	for flag, name := range map[string]string{"--secret": o.Secret, "--queue": o.Queue, "--namespace": o.Namespace, "--file-claim": o.FileClaim, "name of the file": p.name} {
		if (name != "" || flag == "--secret" || name == p.name) && !dns().MatchString(name) {
			return fmt.Errorf("%s %q: want lower-case letters, digits and -", flag, name)
		}
	}
	switch {
	case len(p.name) > maxSetName:
		return fmt.Errorf("name of the file %q: got %d characters, limit %d", p.name, len(p.name), maxSetName)
	case o.FileImage != "" && o.FileClaim != "":
		return errors.New("want --file-image or --file-claim")
	case o.Workers < 1 || o.Workers > maxReplicas:
		return fmt.Errorf("got %d workers, want 1 to %d", o.Workers, maxReplicas)
	case o.MilliCPU < 1 || o.Memory < minSetMemory || o.GPUs < 0 || o.Disk < minSetMemory:
		return fmt.Errorf("got %d mCPU, %d bytes, %d GPUs and %d bytes of disk for a worker: want positive amounts, at least %d bytes", o.MilliCPU, o.Memory, o.GPUs, o.Disk, minSetMemory)
	}
	for one := range strings.SplitSeq(o.Servers, ",") {
		if o.Servers != "" && !strings.HasPrefix(one, "tls://") {
			return fmt.Errorf("server %q: want tls://HOST:PORT", one)
		}
	}
	_, err := addresses(o.Servers)
	return err
}

// object is a mapping of a manifest, whose keys are written sorted.
type object = map[string]any

// kube makes manifests.
type kube struct {
	KubernetesOptions
	planned
}

// meta returns the metadata of an object.
func (k *kube) meta(name string, more object) object {
	m := object{"name": name, "labels": object{"app.kubernetes.io/name": "mm", "app.kubernetes.io/instance": k.name}}
	if k.Namespace != "" {
		m["namespace"] = k.Namespace
	}
	maps.Copy(m, more)
	return m
}

// documents returns the objects of the set.
func (k *kube) documents() ([]object, error) {
	docs := []object{{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": k.meta(k.name, nil), "automountServiceAccountToken": false}}
	files, err := k.fileMap()
	if err != nil {
		return nil, err
	}
	if files != nil {
		docs = append(docs, files)
	}
	for _, role := range k.keepers() {
		docs = append(docs, object{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": k.meta(k.name+"-"+role, nil),
			"spec": object{"accessModes": []string{"ReadWriteOnce"}, "resources": object{"requests": object{"storage": quantity(k.Disk)}}}})
	}
	return append(docs, k.policy(), k.jobSet(files)), nil
}

// keepers are the roles with a volume that outlives their pods.
func (k *kube) keepers() []string {
	if k.Servers == "" {
		return []string{"driver", "server"}
	}
	return []string{"driver"}
}

// fileMap returns a ConfigMap with the files, or nil if they are on another volume.
func (k *kube) fileMap() (object, error) {
	slices.Sort(k.files)
	k.files = slices.Compact(k.files)
	if k.FileImage != "" || k.FileClaim != "" {
		return nil, nil
	}
	text, binary, total := map[string]string{}, map[string][]byte{}, 0
	var sums bytes.Buffer
	for i, name := range k.files {
		data, err := fsx.ReadFile(filepath.Join(k.dir, filepath.FromSlash(name)), maxMapBytes)
		if err != nil {
			return nil, k.tooLarge(name, err)
		}
		if total += len(data); total > maxMapBytes || i >= maxMapFiles {
			return nil, k.tooLarge(name, fmt.Errorf("got more than %d bytes or %d files", maxMapBytes, maxMapFiles))
		}
		fmt.Fprintf(&sums, "%s %s\n", name, hexSum(data))
		if utf8.Valid(data) && !bytes.Contains(data, []byte{'\r'}) {
			text[fileKey(i)] = string(data)
		} else {
			binary[fileKey(i)] = data
		}
	}
	m := object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": k.meta(k.name+"-files-"+hexSum(sums.Bytes())[:10], nil), "immutable": true}
	if len(text) > 0 {
		m["data"] = text
	}
	if len(binary) > 0 {
		m["binaryData"] = encoded(binary)
	}
	return m, nil
}

func (k *kube) tooLarge(name string, err error) error {
	return batchFault(name, fmt.Sprintf("%v: name a volume with the files by --file-image or --file-claim", err))
}

func fileKey(i int) string { return fmt.Sprintf("file-%d", i) }

// policy admits only pods of this set to its server, and none to the others.
func (k *kube) policy() object {
	mine := object{"jobset.sigs.k8s.io/jobset-name": k.name}
	return object{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": k.meta(k.name, nil), "spec": object{
		"podSelector": object{"matchLabels": mine}, "policyTypes": []string{"Ingress"},
		"ingress": []object{{"from": []object{{"podSelector": object{"matchLabels": mine}}}, "ports": []object{{"port": 4222, "protocol": "TCP"}}}},
	}}
}

// jobSet returns the JobSet: it is complete when the driver is, which ends the others.
func (k *kube) jobSet(files object) object {
	jobs := []object{k.role("driver", 1, 6, files), k.role("worker", k.Workers, 1000, nil)}
	if k.Servers == "" {
		jobs = append([]object{k.role("server", 1, 100, nil)}, jobs...)
		for _, j := range jobs[1:] {
			j["dependsOn"] = []object{{"name": "server", "status": "Ready"}}
		}
	}
	meta := k.meta(k.name, nil)
	spec := object{"network": object{"enableDNSHostnames": true}, "successPolicy": object{"operator": "All", "targetReplicatedJobs": []string{"driver"}},
		"failurePolicy": object{"maxRestarts": 3, "restartStrategy": "Recreate"}, "replicatedJobs": jobs}
	if k.Queue != "" {
		meta["labels"].(object)["kueue.x-k8s.io/queue-name"] = k.Queue
		spec["suspend"] = true // until Kueue admits it
	}
	return object{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": meta, "spec": spec}
}

// role returns a replicated job of n pods.
func (k *kube) role(name string, n, retries int, files object) object {
	spec := object{"completionMode": "Indexed", "completions": n, "parallelism": n, "backoffLimit": retries,
		"podFailurePolicy": object{"rules": []object{{"action": "Ignore", "onPodConditions": []object{{"type": "DisruptionTarget", "status": "True"}}}}},
		"template":         object{"metadata": object{"labels": object{"app.kubernetes.io/name": "mm", "app.kubernetes.io/instance": k.name}}, "spec": k.pod(name, files)}}
	return object{"name": name, "replicas": 1, "template": object{"spec": spec}}
}

// server returns the URL of the queue.
func (k *kube) server() string {
	return cmp.Or(k.Servers, fmt.Sprintf("tls://%s-server-0-0.%s:4222", k.name, k.name))
}

// pod returns the pod of a role.
func (k *kube) pod(role string, files object) object {
	queue := []string{"--server", k.server(), "--token", secretAt + "/token", "--ca", secretAt + "/ca.crt"}
	c := object{"name": role, "image": k.Image, "resources": k.resources(role),
		"securityContext": object{"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": object{"drop": []string{"ALL"}}}}
	env := []object{{"name": "MM_HOME", "value": stateAt + "/home"}}
	if k.Level != "" {
		env = append(env, object{"name": "MM_CPU", "value": k.Level})
	}
	mounts := []object{{"name": "secret", "mountPath": secretAt, "readOnly": true}, {"name": "state", "mountPath": stateAt}, {"name": "tmp", "mountPath": "/tmp"}}
	volumes := []object{{"name": "secret", "secret": object{"secretName": k.Secret, "defaultMode": 0o440, "items": k.secrets(role)}}, {"name": "tmp", "emptyDir": object{"sizeLimit": quantity(k.Disk)}}}
	state := object{"name": "state", "persistentVolumeClaim": object{"claimName": k.name + "-" + role}}
	switch role {
	case "server":
		c["command"] = []string{"/usr/bin/mm-queue"}
		c["args"] = []string{"-dir", stateAt + "/server", "-listen", "0.0.0.0:4222", "-token", secretAt + "/token", "-cert", secretAt + "/tls.crt", "-key", secretAt + "/tls.key"}
		c["ports"] = []object{{"containerPort": 4222, "name": "nats"}}
		c["readinessProbe"] = object{"tcpSocket": object{"port": 4222}, "periodSeconds": 2}
	case "worker":
		c["args"] = append([]string{"jobs", "work", "--dir", stateAt + "/worker"}, queue...)
		state = object{"name": "state", "emptyDir": object{"sizeLimit": quantity(k.Disk)}}
	case "driver":
		c["args"], c["workingDir"] = append(slices.Clone(k.args), queue...), filesAt
		if k.study {
			c["args"] = append(slices.Clone(k.args), "--jobs", k.server(), "--jobs-token", secretAt+"/token", "--jobs-ca", secretAt+"/ca.crt")
			env = append(env, object{"name": "MM_KEY_PASSWORD", "valueFrom": object{"secretKeyRef": object{"name": k.Secret, "key": "password"}}})
		}
		more, volume := k.fileVolume(files)
		mounts, volumes = append(mounts, more...), append(volumes, volume)
	}
	c["env"], c["volumeMounts"] = env, mounts
	return object{"restartPolicy": "Never", "serviceAccountName": k.name, "automountServiceAccountToken": false, "enableServiceLinks": false, "terminationGracePeriodSeconds": 30,
		"securityContext": object{"runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532, "seccompProfile": object{"type": "RuntimeDefault"}},
		"containers":      []object{c}, "volumes": append(volumes, state)}
}

// secrets returns the keys of the secret that a role reads.
func (k *kube) secrets(role string) (items []object) {
	keys := []string{"ca.crt", "token"}
	switch {
	case role == "server":
		keys = []string{"tls.crt", "tls.key", "token"}
	case role == "driver" && k.study:
		keys = []string{"ca.crt", "run.key", "token"}
	}
	for _, key := range keys {
		items = append(items, object{"key": key, "path": key})
	}
	return items
}

// fileVolume returns the volume of the files and where it is mounted. Files of a ConfigMap
// are mounted one by one, since they would be symbolic links in a folder.
func (k *kube) fileVolume(files object) (mounts []object, volume object) {
	switch {
	case k.FileImage != "":
		return []object{{"name": "files", "mountPath": filesAt, "readOnly": true}}, object{"name": "files", "image": object{"reference": k.FileImage, "pullPolicy": "IfNotPresent"}}
	case k.FileClaim != "":
		return []object{{"name": "files", "mountPath": filesAt, "readOnly": true}}, object{"name": "files", "persistentVolumeClaim": object{"claimName": k.FileClaim, "readOnly": true}}
	}
	for i, name := range k.files {
		mounts = append(mounts, object{"name": "files", "mountPath": filesAt + "/" + name, "subPath": fileKey(i), "readOnly": true})
	}
	return mounts, object{"name": "files", "configMap": object{"name": files["metadata"].(object)["name"]}}
}

// resources returns those of a role. Only workers compute; the driver also prepares a data
// set or a study.
func (k *kube) resources(role string) object {
	cpu, memory := k.amounts(role)
	limits := object{"memory": quantity(memory)}
	if role == "worker" && k.GPUs > 0 {
		limits["nvidia.com/gpu"] = k.GPUs
	}
	return object{"requests": object{"cpu": fmt.Sprintf("%dm", cpu), "memory": quantity(memory)}, "limits": limits}
}

func (k *kube) amounts(role string) (milli int, memory int64) {
	if role == "worker" {
		return k.MilliCPU, k.Memory
	}
	return 500, 1 << 30
}

// queues returns Kueue's objects with the quota of exactly this set, a start for an
// administrator.
func (k *kube) queues() []object {
	milli, memory := k.Workers*k.MilliCPU, int64(k.Workers)*k.Memory
	for _, role := range k.keepers() {
		c, m := k.amounts(role)
		milli, memory = milli+c, memory+m
	}
	covered, quota := []string{"cpu", "memory"}, []object{{"name": "cpu", "nominalQuota": fmt.Sprintf("%dm", milli)}, {"name": "memory", "nominalQuota": quantity(memory)}}
	if k.GPUs > 0 {
		covered, quota = append(covered, "nvidia.com/gpu"), append(quota, object{"name": "nvidia.com/gpu", "nominalQuota": k.Workers * k.GPUs})
	}
	const api = "kueue.x-k8s.io/v1beta1"
	plain := func(name string) object {
		return object{"name": name, "labels": object{"app.kubernetes.io/name": "mm"}}
	}
	return []object{
		{"apiVersion": api, "kind": "ResourceFlavor", "metadata": plain(k.Queue), "spec": object{}},
		{"apiVersion": api, "kind": "ClusterQueue", "metadata": plain(k.Queue), "spec": object{"namespaceSelector": object{}, "queueingStrategy": "BestEffortFIFO",
			"resourceGroups": []object{{"coveredResources": covered, "flavors": []object{{"name": k.Queue, "resources": quota}}}}}},
		{"apiVersion": api, "kind": "LocalQueue", "metadata": k.meta(k.Queue, nil), "spec": object{"clusterQueue": k.Queue}},
	}
}

// quantity formats bytes, rounded up to MiB.
func quantity(n int64) string { return fmt.Sprintf("%dMi", (n+1<<20-1)>>20) }

// documents writes objects as YAML, with sorted keys.
func documents(docs []object) ([]byte, error) {
	var b bytes.Buffer
	for i, d := range docs {
		data, err := schemas.Encode(d)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteString("---\n")
		}
		b.Write(data)
	}
	return b.Bytes(), nil
}

// encoded returns binary data as base64.
func encoded(binary map[string][]byte) map[string]string {
	out := map[string]string{}
	for key, data := range binary {
		out[key] = base64.StdEncoding.EncodeToString(data)
	}
	return out
}
