package modelpack

import (
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/registry/artifact"
)

// Annotations returns the annotations of a module's manifest.
func Annotations(m *modules.Manifest) map[string]string {
	a := map[string]string{
		abi.AnnotationABI: string(m.ABI), abi.AnnotationKind: abi.KindModule, abi.AnnotationName: m.Name,
		abi.AnnotationType: string(m.Type), abi.AnnotationVersion: m.Version,
		ocispec.AnnotationVersion: m.Version, ocispec.AnnotationTitle: m.Name,
	}
	if m.License != "" {
		a[ocispec.AnnotationLicenses] = m.License
	}
	if m.Description != "" {
		a[ocispec.AnnotationDescription] = m.Description
	}
	if len(m.Requires) > 0 {
		var refs []string
		for _, r := range m.Requires {
			refs = append(refs, r.String())
		}
		a[abi.AnnotationRequires] = strings.Join(refs, ", ")
	}
	return a
}

// Config is the ModelPack config that describes a module.
func Config(m *modules.Manifest) artifact.ModelConfig {
	var c artifact.ModelConfig
	c.Descriptor.Name, c.Descriptor.Version, c.Descriptor.Description = m.Name, m.Version, m.Description
	if m.License != "" {
		c.Descriptor.Licenses = []string{m.License}
	}
	for _, format := range []abi.Format{abi.GGUF, abi.ONNX, abi.Safetensors} {
		if m.Entry(format) != "" {
			c.Config.Format = string(format)
			break
		}
	}
	in, out := "embedding", "embedding"
	switch m.Type {
	case abi.Core, abi.DraftCore:
		in, out = "text", "text"
	case abi.Encoder:
		in = string(m.Modality)
	case abi.Decoder:
		out = string(m.Modality)
	case abi.Projector:
	default:
		return c
	}
	c.Config.Capabilities = &artifact.ModelCapabilities{InputTypes: []string{in}, OutputTypes: []string{out}}
	return c
}
