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
	AnnotationRole      = Namespace + ".role"        // role of a layer
	AnnotationVersion   = Namespace + ".version"     // the component's version
	AnnotationFormat    = Namespace + ".format"      // gguf, onnx, safetensors, yaml, …
	AnnotationQuant     = Namespace + ".quant"       // fp16, int8, int4
	AnnotationImatrix   = Namespace + ".imatrix"     // digest of the importance matrix for rounding, or of its text
	AnnotationMethod    = Namespace + ".method"      // rounding method: awq, gptq
	AnnotationText      = Namespace + ".calibration" // digest of the calibration text
	// For a context compiled for an NPU, from its record.
	AnnotationSoC       = Namespace + ".qnn.soc"       // chip: SM8750
	AnnotationArch      = Namespace + ".qnn.arch"      // architecture of its HTP: v79
	AnnotationSDK       = Namespace + ".qnn.sdk"       // build of the SDK
	AnnotationSource    = Namespace + ".qnn.source"    // digest of the source ONNX file
	AnnotationCosine    = Namespace + ".qnn.cosine"    // of its results against mm's own engine
	AnnotationSimulated = Namespace + ".qnn.simulated" // "true": compared in emulation, not on a device
	AnnotationBackend   = Namespace + ".backend"       // engine requested by the graph
	AnnotationRequires  = Namespace + ".requires"      // references that a module requires, comma separated
	AnnotationUpstream  = Namespace + ".upstream"      // digest of the source package of an engine
	AnnotationModelPack = Namespace + ".modelpack"     // of a container image: digest of the ModelPack manifest with the same files
)

// Values of [AnnotationKind].
const (
	KindModule   = "module"
	KindAssembly = "assembly"
	KindEngine   = "engine" // a native engine's libraries
)

// Roles of layers in addition to the module types.
const (
	RoleManifest = "manifest" // a module.yaml
	RoleAssembly = "assembly" // assembly.json, lock and graph
	RoleDoc      = "doc"      // card, license
)

// AnnotationPrefix begins the key of every annotation of mm's.
const AnnotationPrefix = Namespace + "."

// Media types (CNCF ModelPack v0.0.7; one raw layer per file).
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

	// ArtifactIndex marks the index of the targets of an assembly.
	ArtifactIndex = "application/vnd.mm-abi.assembly.v1+json"
	// ArtifactEngine marks a native engine, with the libraries and licenses for one system
	// as raw layers, and the index of several.
	ArtifactEngine = "application/vnd.mm-abi.engine.v1+json"
)
