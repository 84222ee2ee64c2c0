package abi

// Namespace is the reverse-DNS prefix of every annotation key that mm writes.
const Namespace = "org.mm-abi"

// Annotation keys on manifests, layers and index entries.
const (
	AnnotationABI       = Namespace + ".abi"         // "mm-abi-1.0"
	AnnotationKind      = Namespace + ".kind"        // KindModule, KindAssembly or KindEngine
	AnnotationName      = Namespace + ".name"        // the module's or assembly's name
	AnnotationType      = Namespace + ".type"        // a module's ModuleType
	AnnotationTarget    = Namespace + ".target"      // "laptop"
	AnnotationLock      = Namespace + ".lock"        // digest of the lock file
	AnnotationComponent = Namespace + ".component"   // which module a layer belongs to
	AnnotationRole      = Namespace + ".role"        // what a layer is for
	AnnotationVersion   = Namespace + ".version"     // the component's version
	AnnotationFormat    = Namespace + ".format"      // gguf, onnx, safetensors, yaml, …
	AnnotationQuant     = Namespace + ".quant"       // fp16, int8, int4
	AnnotationImatrix   = Namespace + ".imatrix"     // digest of the importance matrix that weights were rounded by, or of the text it was made of
	AnnotationMethod    = Namespace + ".method"      // how weights were rounded: awq, gptq
	AnnotationText      = Namespace + ".calibration" // digest of the text that was read to round weights
	// Of a context compiled for an NPU, as its record says.
	AnnotationSoC       = Namespace + ".qnn.soc"       // the chip: SM8750
	AnnotationArch      = Namespace + ".qnn.arch"      // of its HTP: v79
	AnnotationSDK       = Namespace + ".qnn.sdk"       // build of the SDK that compiled it
	AnnotationSource    = Namespace + ".qnn.source"    // digest of the ONNX file that it was compiled of
	AnnotationCosine    = Namespace + ".qnn.cosine"    // of its results to those of our own engine
	AnnotationSimulated = Namespace + ".qnn.simulated" // "true": that was compared in emulation, not on a device
	AnnotationBackend   = Namespace + ".backend"       // the engine that the graph asks for
	AnnotationRequires  = Namespace + ".requires"      // references a module needs, comma separated
	AnnotationUpstream  = Namespace + ".upstream"      // digest of the package that an engine was taken from
)

// Values of [AnnotationKind].
const (
	KindModule   = "module"
	KindAssembly = "assembly"
	KindEngine   = "engine" // a native engine's libraries
)

// Roles of layers beside the module types themselves.
const (
	RoleManifest = "manifest" // a module.yaml
	RoleAssembly = "assembly" // assembly.json, lock and graph
	RoleDoc      = "doc"      // card, licence
)

// Media types (CNCF ModelPack v0.0.7; one raw layer a file).
const (
	ArtifactModel      = "application/vnd.cncf.model.manifest.v1+json"
	MediaModelConfig   = "application/vnd.cncf.model.config.v1+json"
	MediaWeight        = "application/vnd.cncf.model.weight.v1.raw"
	MediaWeightConfig  = "application/vnd.cncf.model.weight.config.v1.raw"
	MediaDoc           = "application/vnd.cncf.model.doc.v1.raw"
	MediaCode          = "application/vnd.cncf.model.code.v1.raw"
	MediaDataset       = "application/vnd.cncf.model.dataset.v1.raw"
	AnnotationFilepath = "org.cncf.model.filepath"
	AnnotationFileMeta = "org.cncf.model.file.metadata+json"

	// ArtifactIndex marks the index over the targets of one assembly.
	ArtifactIndex = "application/vnd.mm-abi.assembly.v1+json"
	// ArtifactEngine marks a native engine: its libraries and licences for one
	// system as raw layers, and the index over several.
	ArtifactEngine = "application/vnd.mm-abi.engine.v1+json"
)
