package artifact

import (
	"cmp"
	"fmt"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/abi"
)

// named is the file and role of a kind of layer.
type named struct {
	file string
	role Role
}

// kind returns the word of a media type for the kind of layer: "weight.config" of
// application/vnd.cncf.model.weight.config.v1.tar+gzip.
func kind(mediaType, prefix string) string {
	rest, _ := strings.CutPrefix(mediaType, prefix)
	word, _, _ := strings.Cut(rest, ".v1")
	return word
}

// modelPackLayer reads a layer of ModelPack: raw, packed, or with the file's format as
// the packing (….weight.v1.gguf).
func modelPackLayer(desc ocispec.Descriptor) (string, Role, bool) {
	prefix := prefixModelPack
	if strings.HasPrefix(desc.MediaType, prefixCNAI) {
		prefix = prefixCNAI
	}
	if !strings.HasPrefix(desc.MediaType, prefix) {
		return "layer", RoleOther, filePath(desc.Annotations) != ""
	}
	word := kind(desc.MediaType, prefix)
	roles := map[string]Role{"weight": RoleWeights, "weight.config": RoleConfig, "doc": RoleOther, "code": RoleOther, "dataset": RoleOther}
	role, ok := roles[word]
	file := strings.ReplaceAll(word, ".", "-")
	if _, format, found := strings.Cut(desc.MediaType, ".v1."); found && word == "weight" && (format == "gguf" || format == "safetensors") {
		file = "model." + format
	}
	return file, role, ok
}

// kitLayer reads a layer of KitOps.
func kitLayer(desc ocispec.Descriptor) (string, Role, bool) {
	roles := map[string]Role{"model": RoleWeights, "modelpart": RoleConfig, "code": RoleOther, "dataset": RoleOther, "docs": RoleOther, "mcpb": RoleOther, "prompt": RoleOther}
	word := kind(desc.MediaType, prefixKit)
	role, ok := roles[word]
	return word, role, ok
}

// dockerLayer reads a layer of Docker Model Runner.
func dockerLayer(desc ocispec.Descriptor) (string, Role, bool) {
	kinds := map[string]named{
		"gguf.v3":             {"model.gguf", RoleWeights},
		"model.file.v1+gguf":  {"model.gguf", RoleWeights},
		"safetensors":         {"model.safetensors", RoleWeights},
		"dduf":                {"model.dduf", RoleWeights},
		"mmproj":              {"mmproj.gguf", RoleProjector},
		"chat.template.jinja": {"chat_template.jinja", RoleTemplate},
		"license":             {"LICENSE", RoleLicense},
		"vllm.config.tar":     {"config", RoleConfig},
		"dir.tar":             {"folder", RoleConfig},
	}
	rest := strings.TrimPrefix(desc.MediaType, prefixDocker)
	k, ok := kinds[strings.TrimSuffix(rest, "+gzip")]
	if !ok && filePath(desc.Annotations) != "" { // v0.2 records the path of every file
		return "", RoleConfig, true
	}
	return k.file, k.role, ok
}

// ollamaLayer reads a layer of Ollama.
func ollamaLayer(desc ocispec.Descriptor) (string, Role, bool) {
	kinds := map[string]named{
		"model":     {"model.gguf", RoleWeights},
		"projector": {"mmproj.gguf", RoleProjector},
		"adapter":   {"adapter.gguf", RoleAdapter},
		"draft":     {"draft.gguf", RoleDraft},
		"template":  {"template.gotmpl", RoleGoTemplate},
		"params":    {"params.json", RoleParams},
		"system":    {"system.txt", RoleParams},
		"messages":  {"messages.json", RoleParams},
		"license":   {"LICENSE", RoleLicense},
	}
	word, _, _ := strings.Cut(strings.TrimPrefix(desc.MediaType, prefixOllama), ";")
	k, ok := kinds[strings.TrimSpace(word)]
	return k.file, k.role, ok
}

// titledLayer reads a file of oras.
func titledLayer(desc ocispec.Descriptor) (string, Role, bool) { return "folder", "", true }

// foreignIndex reports an index of another tool: without mm's type and targets.
func foreignIndex(doc *ocispec.Index) bool {
	if claimed(doc.Annotations) || doc.ArtifactType == abi.ArtifactIndex || doc.ArtifactType == abi.ArtifactEngine {
		return false
	}
	for _, e := range doc.Manifests {
		if claimed(e.Annotations) {
			return false
		}
	}
	return len(doc.Manifests) > 0
}

// platforms returns another tool's index. Attestations (platform unknown/unknown) are
// left out; the other entries are named by platform or by their number.
func platforms(entries []ocispec.Descriptor) (*Index, error) {
	if len(entries) > MaxTargets {
		return nil, fmt.Errorf("%d targets, limit %d", len(entries), MaxTargets)
	}
	idx := &Index{Foreign: true}
	seen := map[string]bool{}
	for i, e := range entries {
		if err := checkArtifactDescriptor(e); err != nil {
			return nil, fmt.Errorf("target %d: %w", i, err)
		}
		if isIndex(e.MediaType) {
			return nil, fmt.Errorf("%w: got an index within an index", ErrForeign)
		}
		if attests(e) {
			continue
		}
		name := platformName(e.Platform)
		if name == "" || seen[name] || !abi.ValidTarget(name) {
			name = fmt.Sprintf("%d", i+1)
		}
		seen[name] = true
		idx.Entries = append(idx.Entries, IndexEntry{Descriptor: Plain(e), Target: name, Platform: e.Platform})
	}
	if len(idx.Entries) == 0 {
		return nil, fmt.Errorf("%w: got an index of attestations", ErrForeign)
	}
	return idx, nil
}

// attests reports an entry of an index that describes another entry.
func attests(e ocispec.Descriptor) bool {
	return e.Annotations["vnd.docker.reference.type"] != "" || e.Platform != nil && e.Platform.OS == "unknown" && e.Platform.Architecture == "unknown"
}

// platformName is "linux-arm64-v8", or empty without a platform.
func platformName(p *ocispec.Platform) string {
	if p == nil {
		return ""
	}
	name := strings.Trim(p.OS+"-"+p.Architecture, "-")
	if p.Variant != "" {
		name += "-" + p.Variant
	}
	return strings.ToLower(name)
}

// Pick returns the target of another tool's index for a platform: that of the same
// system and processor, that of Linux and the same processor, the only one, or the
// only one without a platform. Empty: none of these, or an index of mm's.
func (t *Tree) Pick(os, arch string) string {
	if t.Index == nil || !t.Index.Foreign {
		return ""
	}
	var same, linux, free []string
	for _, p := range t.Parts {
		switch e := t.Index.platform(p.Target); {
		case e == nil || e.OS == "" && e.Architecture == "":
			free = append(free, p.Target)
		case e.OS == os && e.Architecture == arch:
			same = append(same, p.Target)
		case e.OS == "linux" && e.Architecture == arch:
			linux = append(linux, p.Target)
		}
	}
	if len(t.Parts) == 1 {
		return t.Parts[0].Target
	}
	only := ""
	if len(free) == 1 {
		only = free[0]
	}
	return cmp.Or(first(same), first(linux), only)
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// platform returns the platform of a target.
func (ix *Index) platform(target string) *ocispec.Platform {
	for _, e := range ix.Entries {
		if e.Target == target {
			return e.Platform
		}
	}
	return nil
}
