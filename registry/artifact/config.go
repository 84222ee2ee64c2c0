package artifact

import (
	"time"

	"github.com/opencontainers/go-digest"
)

// ModelConfig is a ModelPack config
// (application/vnd.cncf.model.config.v1+json, model-spec v0.0.7).
type ModelConfig struct {
	Descriptor ModelDescriptor `json:"descriptor"`
	ModelFS    ModelFS         `json:"modelfs"` // filled in by Pack
	Config     ModelParams     `json:"config"`
}

// ModelDescriptor is the general part of a [ModelConfig].
type ModelDescriptor struct {
	CreatedAt   *time.Time `json:"createdAt,omitempty"` // from SOURCE_DATE_EPOCH; nil: left out
	Authors     []string   `json:"authors,omitempty"`
	Family      string     `json:"family,omitempty"`
	Name        string     `json:"name,omitempty"` // filled in by Pack
	DocURL      string     `json:"docURL,omitempty"`
	SourceURL   string     `json:"sourceURL,omitempty"`
	DatasetsURL []string   `json:"datasetsURL,omitempty"`
	Version     string     `json:"version,omitempty"` // filled in by Pack
	Revision    string     `json:"revision,omitempty"`
	Vendor      string     `json:"vendor,omitempty"`
	Licenses    []string   `json:"licenses,omitempty"` // SPDX expressions
	Title       string     `json:"title,omitempty"`
	Description string     `json:"description,omitempty"`
}

// ModelFS names the layers by the digests of their bare bytes.
type ModelFS struct {
	Type    string          `json:"type"` // "layers"
	DiffIDs []digest.Digest `json:"diffIds"`
}

// ModelParams describes the model to an engine.
type ModelParams struct {
	Architecture string             `json:"architecture,omitempty"`
	Format       string             `json:"format,omitempty"`
	ParamSize    string             `json:"paramSize,omitempty"` // "8b"
	Precision    string             `json:"precision,omitempty"`
	Quantization string             `json:"quantization,omitempty"`
	Capabilities *ModelCapabilities `json:"capabilities,omitempty"`
}

// ModelCapabilities lists input and output types: text, image, audio, video,
// embedding, other.
type ModelCapabilities struct {
	InputTypes  []string `json:"inputTypes,omitempty"`
	OutputTypes []string `json:"outputTypes,omitempty"`
	Reasoning   *bool    `json:"reasoning,omitempty"`
	ToolUsage   *bool    `json:"toolUsage,omitempty"`
	Languages   []string `json:"languages,omitempty"` // ISO 639, two letters
}
