package servers

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
)

// Publication is an artifact at a registry.
type Publication struct {
	Name   string // of the resources
	Place  string // HOST/REPOSITORY
	Digest string // sha256:…
	Image  bool   // a container image; false: a ModelPack artifact
	Core   bool   // a ModelPack artifact of one target with a GGUF core
}

// ManifestOptions for [Manifest].
type ManifestOptions struct {
	Server string // container image that reads the model. Unused for KServe, required otherwise
	Format string // of KServe: name of the model format. Empty: onnx
}

// maxResource is the length of the name of a resource in Kubernetes.
const maxResource = 63

// imageRef is a reference of a container image.
var imageRef = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z0-9][a-zA-Z0-9.:_/-]{0,254}(@sha256:[0-9a-f]{64})?$`)
})

// Manifest returns the document for a publication and a README.
func Manifest(p Publication, kind Kind, opt ManifestOptions) ([]File, error) {
	var list diag.List
	resource := strings.NewReplacer(".", "-", "_", "-").Replace(p.Name)
	if len(resource) > maxResource || !abi.ValidName(p.Name) || resource == "" || resource[0] < 'a' {
		fault(&list, fmt.Sprintf("name %q: want a lower-case letter first and at most %d letters, digits and -", p.Name, maxResource), "push the artifact to a repository with such a name")
	}
	switch {
	case kind == Compose && !p.Core:
		fault(&list, p.Place+": want a target with a core in GGUF, as Docker Model Runner reads it", "push the build with mm push and name the tag of one target, TAG-TARGET")
	case kind != Compose && !p.Image:
		fault(&list, p.Place+": got a ModelPack artifact, want a container image", "mm push REF "+p.Place+" --as-image makes one")
	}
	if kind != KServe && !imageRef().MatchString(opt.Server) {
		fault(&list, fmt.Sprintf("server image: got %q, want HOST/REPOSITORY:TAG", opt.Server), "--server names the image that serves the model")
	}
	format := opt.Format
	if format == "" {
		format = "onnx"
	}
	if !abi.ValidName(format) {
		fault(&list, fmt.Sprintf("model format: got %q, want a name such as onnx", format), "")
	}
	if list.Failed() {
		return nil, list.Err()
	}
	ref := p.Place + "@" + p.Digest
	name, text := document(kind, resource, ref, opt.Server, format)
	return []File{{Path: "README.md", Text: readme(kind, p.Name, ref)}, {Path: name, Text: text}}, nil
}

// document returns the name and the text of the one document of a kind. All values
// were checked: none needs another quoting.
func document(kind Kind, name, ref, server, format string) (file string, text []byte) {
	var b bytes.Buffer
	switch kind {
	case KServe:
		fmt.Fprintf(&b, kserveYAML, name, format, ref)
		return "inferenceservice.yaml", b.Bytes()
	case Kubernetes:
		fmt.Fprintf(&b, deploymentYAML, name, name, name, name, server, ref)
		return "deployment.yaml", b.Bytes()
	}
	fmt.Fprintf(&b, composeYAML, server, ref)
	return "compose.yaml", b.Bytes()
}

const kserveYAML = `apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: %s
spec:
  predictor:
    model:
      modelFormat:
        name: %s
      storageUri: "oci://%s"
`

const deploymentYAML = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: %s
  labels:
    app.kubernetes.io/name: %s
spec:
  replicas: 1
  selector:
    matchLabels:
      app.kubernetes.io/name: %s
  template:
    metadata:
      labels:
        app.kubernetes.io/name: %s
    spec:
      automountServiceAccountToken: false
      containers:
        - name: server
          image: "%s"
          env:
            - name: MODEL_DIR
              value: /mnt/image/models
          volumeMounts:
            - name: model
              mountPath: /mnt/image
              readOnly: true
      volumes:
        - name: model
          image:
            reference: "%s"
            pullPolicy: IfNotPresent
`

const composeYAML = `services:
  app:
    image: "%s"
    models:
      llm:
        endpoint_var: LLM_URL
        model_var: LLM_MODEL
models:
  llm:
    model: "%s"
`

// readme returns the README of an export.
func readme(kind Kind, name, ref string) []byte {
	text := map[Kind]string{
		Triton:     "A model repository of Triton for the functions of %s. Start and check it:\n\n    tritonserver --model-repository=. --exit-on-error=true\n\nThe server needs the ONNX Runtime backend. Batches are a dimension of the models: the\nserver does not batch.\n",
		OVMS:       "A configuration of OpenVINO Model Server for the functions of %s. Start it with this\nfolder as /models:\n\n    docker run --rm -v \"$PWD:/models:ro\" -p 9000:9000 openvino/model_server --config_path /models/config.json --port 9000\n",
		KServe:     "An InferenceService of KServe for %s. Check it against a cluster:\n\n    kubectl apply --dry-run=server -f inferenceservice.yaml\n\nThe files of the image are in /mnt/models of the serving runtime, which must read the\nmodel format.\n",
		Kubernetes: "A Deployment for %s, with the model as an image volume (Kubernetes 1.31 and later).\nCheck it:\n\n    kubernetes-validate --strict -k 1.36 deployment.yaml\n    kubectl apply --dry-run=server -f deployment.yaml\n\nThe server finds the files in the folder that MODEL_DIR names.\n",
		Compose:    "A Compose file with the core of %s for Docker Model Runner. Check it:\n\n    docker compose config\n\nThe application gets the address and the name of the model in LLM_URL and LLM_MODEL.\n",
		VLLM:       "The core of %s as a folder of Hugging Face transformers. Serve it with vLLM:\n\n    vllm serve .\n\nThe configuration and the tokenizer are those of the folder that the core was imported\nfrom. The weights are the original ones unless the build has quantized them.\n",
	}[kind]
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\n", name)
	fmt.Fprintf(&b, text, name)
	if ref != "" {
		fmt.Fprintf(&b, "\nThe model is pinned by digest. Verify its signature:\n\n    mm verify %s\n", ref)
	}
	return b.Bytes()
}
