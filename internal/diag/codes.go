package diag

import (
	"slices"
	"strings"
)

// Code is the stable name of a diagnostic, MM and four digits. The hundreds are
// the area: 00 reading a document, 01 schema, 02 one module, 03 between
// modules of a build, 04 resolution and lock, 05 assembling, 06 trust, 07
// store and registry, 08 running, 09 settings, 10 an ONNX model, 11 a file for
// QNN, 12 a device, 13 serving and speech, 14 evaluation,
// 15 data.
type Code string

// Entry describes a code.
type Entry struct {
	Code    Code
	Summary string // the fixed part of the message, a noun phrase
	Cause   string // why it is reported
	Fix     string // what to do, an imperative
}

// The codes. The number of a removed code is never used again: MM0507, MM0804,
// MM0903.
const (
	Syntax       Code = "MM0001"
	DuplicateKey Code = "MM0002"
	Alias        Code = "MM0003"
	Tag          Code = "MM0004"
	ManyDocs     Code = "MM0005"
	TooLarge     Code = "MM0006"
	Unreadable   Code = "MM0007"
	NotMM        Code = "MM0008"
	HiddenText   Code = "MM0009"
	Conflicted   Code = "MM0010"

	UnknownKey   Code = "MM0101"
	MissingKey   Code = "MM0102"
	WrongType    Code = "MM0103"
	NotAllowed   Code = "MM0104"
	OutOfRange   Code = "MM0105"
	WrongForm    Code = "MM0106"
	NeedsABI     Code = "MM0107"
	OldSpelling  Code = "MM0108"
	RepeatedItem Code = "MM0109"

	BadVersion   Code = "MM0201"
	BadLicense   Code = "MM0202"
	NoLicense    Code = "MM0203"
	BadPath      Code = "MM0204"
	FileMissing  Code = "MM0205"
	FileDiffers  Code = "MM0206"
	CapExceeded  Code = "MM0207"
	PortConflict Code = "MM0208"
	BadTokens    Code = "MM0209"
	BadLimit     Code = "MM0210"
	WeightsFault Code = "MM0211"
	BadBlock     Code = "MM0212"
	BadFigure    Code = "MM0213"

	PortRank       Code = "MM0301"
	PortSize       Code = "MM0302"
	PortDType      Code = "MM0303"
	PortUnattached Code = "MM0304"
	WidthDiffers   Code = "MM0305"
	CapOverABI     Code = "MM0306"
	SequenceFull   Code = "MM0307"
	KVUnknown      Code = "MM0308"
	TokensDiffer   Code = "MM0309"
	VocabDiffers   Code = "MM0310"
	ExportUnknown  Code = "MM0311"
	QuantUnknown   Code = "MM0312"
	LimitsMerged   Code = "MM0313"
	WrongRole      Code = "MM0314"
	ModalityPair   Code = "MM0315"
	TwiceInBuild   Code = "MM0316"
	ABIDiffers     Code = "MM0317"
	NotExported    Code = "MM0318"
	ParamDiffers   Code = "MM0319"
	NotChecked     Code = "MM0320"
	BackendAsked   Code = "MM0321"
	AgentWithin    Code = "MM0322"
	PermissionAsk  Code = "MM0323"
	CallDialect    Code = "MM0324"
	CallUnread     Code = "MM0325"
	LicensePair    Code = "MM0326"
	LicenseTerms   Code = "MM0327"
	Unlisted       Code = "MM0328"
	EvalAbsent     Code = "MM0330"
	EvalMissed     Code = "MM0331"
	EvalOther      Code = "MM0332"
	BadEval        Code = "MM0333"
	CardDiffers    Code = "MM0334"
	LicenseText    Code = "MM0335"

	BadRef        Code = "MM0401"
	NotFound      Code = "MM0402"
	NoVersion     Code = "MM0403"
	Conflict      Code = "MM0404"
	LockStale     Code = "MM0405"
	LockMissing   Code = "MM0406"
	LockDrift     Code = "MM0407"
	Offline       Code = "MM0408"
	TooManySteps  Code = "MM0409"
	SourceFailed  Code = "MM0410"
	CompatWritten Code = "MM0411"
	NextToCore    Code = "MM0412"

	NoExporter    Code = "MM0501"
	BadExport     Code = "MM0502"
	ExportFailed  Code = "MM0503"
	NoTarget      Code = "MM0504"
	QuantFallback Code = "MM0505"
	KVMapped      Code = "MM0506"
	NotLowered    Code = "MM0520"
	ExportDrift   Code = "MM0521"
	NotImage      Code = "MM0530"
	NotServed     Code = "MM0531"

	Unsigned        Code = "MM0601"
	WrongKey        Code = "MM0602"
	KeyScope        Code = "MM0603"
	KeyExpired      Code = "MM0604"
	KeyRevoked      Code = "MM0605"
	WrongSubject    Code = "MM0606"
	AttestationOnly Code = "MM0607"
	BadBundle       Code = "MM0608"
	BadSignature    Code = "MM0609"
	Threshold       Code = "MM0610"
	NoRule          Code = "MM0611"
	AmbiguousRule   Code = "MM0612"
	Tampered        Code = "MM0613"
	TagMoved        Code = "MM0614"
	IdentityDiffers Code = "MM0615"
	SkippedVerify   Code = "MM0616"
	ClaimDiffers    Code = "MM0617"
	NoEvidence      Code = "MM0618"
	BadCertificate  Code = "MM0619"
	OlderForm       Code = "MM0620"

	NoChannel        Code = "MM0640"
	ChannelRollback  Code = "MM0641"
	ChannelExpired   Code = "MM0642"
	ChannelForked    Code = "MM0643"
	ChannelRace      Code = "MM0644"
	ChannelSigner    Code = "MM0645"
	BadChannel       Code = "MM0646"
	NotPromoted      Code = "MM0647"
	UnsaidRollback   Code = "MM0648"
	PromotionRefused Code = "MM0649"
	ClockDiffers     Code = "MM0650"

	Corrupt         Code = "MM0701"
	HostileInput    Code = "MM0702"
	NoArtifact      Code = "MM0703"
	VersionTaken    Code = "MM0704"
	ForeignArtifact Code = "MM0705"
	UnknownABI      Code = "MM0706"
	Unlicensed      Code = "MM0707"

	NoBackend     Code = "MM0801"
	GoldenMissed  Code = "MM0802"
	PromptTooLong Code = "MM0803"
	BudgetMissed  Code = "MM0805"
	NotRunnable   Code = "MM0806"

	BadConfig Code = "MM0901"
	BadTrust  Code = "MM0902"

	ModelMalformed Code = "MM1001"
	ModelPointer   Code = "MM1002"
	ModelLimits    Code = "MM1003"
	ModelIR        Code = "MM1004"
	ModelFields    Code = "MM1005"

	ModelOpset   Code = "MM1011"
	ModelDomain  Code = "MM1012"
	ModelNode    Code = "MM1013"
	ModelContext Code = "MM1014"

	ExternalKey     Code = "MM1021"
	ExternalPath    Code = "MM1022"
	ExternalLink    Code = "MM1023"
	ExternalFile    Code = "MM1024"
	ExternalRange   Code = "MM1025"
	ExternalOverlap Code = "MM1026"

	TensorType Code = "MM1031"
	TensorDims Code = "MM1032"
	TensorData Code = "MM1033"

	QuantDiffers Code = "MM1041"
	ModelSize    Code = "MM1042"

	GraphName      Code = "MM1051"
	GraphOrder     Code = "MM1052"
	GraphDangling  Code = "MM1053"
	GraphOutput    Code = "MM1054"
	GraphUnused    Code = "MM1055"
	GraphRecursion Code = "MM1056"
	GraphRandom    Code = "MM1057"
	GraphControl   Code = "MM1058"

	ModelTraining Code = "MM1061"

	NotClaimed  Code = "MM1071"
	DriftMissed Code = "MM1072"

	SchemaSubset Code = "MM1081"

	QNNUnread    Code = "MM1101"
	QNNNoContext Code = "MM1102"
	QNNRefused   Code = "MM1103"
	QNNDrift     Code = "MM1104"
	QNNUnpaired  Code = "MM1105"
	QNNChip      Code = "MM1106"

	TargetBackend   Code = "MM1111"
	TargetChip      Code = "MM1112"
	TargetSDK       Code = "MM1113"
	TargetLibraries Code = "MM1114"
	TargetDType     Code = "MM1115"
	TargetMemory    Code = "MM1116"
	TargetUnknown   Code = "MM1117"

	WrapperDiffers Code = "MM1121"
	OperatorsLeft  Code = "MM1122"

	DeviceServer       Code = "MM1201"
	DeviceNone         Code = "MM1202"
	DeviceMany         Code = "MM1203"
	DeviceUnauthorized Code = "MM1204"
	DeviceOffline      Code = "MM1205"
	DeviceLost         Code = "MM1206"
	DeviceOld          Code = "MM1207"
	DeviceUntrusted    Code = "MM1208"
	DeviceRefuses      Code = "MM1209"

	DeviceBattery  Code = "MM1211"
	DeviceHot      Code = "MM1212"
	DeviceLocked   Code = "MM1213"
	DeviceReadOnly Code = "MM1214"
	DeviceFull     Code = "MM1215"
	DeviceFolder   Code = "MM1216"

	PushDiffers Code = "MM1221"

	RunnerLibrary  Code = "MM1231"
	LibrariesMixed Code = "MM1232"
	ContextRefused Code = "MM1233"
	DeviceMemory   Code = "MM1234"
	RunFailed      Code = "MM1235"
	RunDeadline    Code = "MM1236"
	RunCrashed     Code = "MM1237"
	RunnerRefused  Code = "MM1238"
	RunnerBabbled  Code = "MM1239"

	OutputCount   Code = "MM1241"
	OutputSize    Code = "MM1242"
	OutputNaN     Code = "MM1243"
	OutputZero    Code = "MM1244"
	OutputSame    Code = "MM1245"
	OutputStale   Code = "MM1246"
	OutputDiffers Code = "MM1247"
	OutputDigest  Code = "MM1248"

	PlatformDiffers Code = "MM1251"
	EvidenceShort   Code = "MM1252"
	EvidenceChanged Code = "MM1253"

	EvidenceUnsigned Code = "MM1254"
	EvidenceStranger Code = "MM1255"
	EvidenceForged   Code = "MM1256"

	KeyLine  Code = "MM1301"
	KeyShort Code = "MM1302"
	KeyTwice Code = "MM1303"
	KeyMany  Code = "MM1304"
	KeyNone  Code = "MM1305"

	BadText  Code = "MM1321"
	TextLong Code = "MM1322"

	LoopFile     Code = "MM1331"
	LoopLanguage Code = "MM1332"
	LoopTask     Code = "MM1333"
	LoopLong     Code = "MM1334"
	NoLoop       Code = "MM1335"
	LoopNumber   Code = "MM1336"

	SenseMissing Code = "MM1341"
	EngineLacks  Code = "MM1342"

	VoiceUnknown Code = "MM1351"
	NoPhonemizer Code = "MM1352"
	BadVoices    Code = "MM1353"
	BadSymbols   Code = "MM1354"
	NothingSaid  Code = "MM1355"
	NoSpeech     Code = "MM1356"
	SpeechLong   Code = "MM1357"

	SuiteFunction Code = "MM1401"
	SuiteData     Code = "MM1402"
	SuiteTemplate Code = "MM1403"
	SuiteMetric   Code = "MM1404"
	SuiteFilter   Code = "MM1405"
	SuiteDoc      Code = "MM1406"
	SuiteShots    Code = "MM1407"
	SuiteLong     Code = "MM1408"
	SuiteTwice    Code = "MM1409"

	GateWorse      Code = "MM1411"
	GateOpen       Code = "MM1412"
	RunsDiffer     Code = "MM1413"
	BadResults     Code = "MM1414"
	BudgetOver     Code = "MM1421"
	BudgetUnproven Code = "MM1422"
	BudgetAbsent   Code = "MM1423"

	StudyRecipe   Code = "MM1501"
	StudyMutation Code = "MM1502"
	StudyArm      Code = "MM1503"
	StudyClaim    Code = "MM1504"
	StudyRungs    Code = "MM1505"
	StudyHeld     Code = "MM1506"
	StudyBudget   Code = "MM1507"
	StudyEnergy   Code = "MM1508"
	StudyEdited   Code = "MM1509"
	StudyText     Code = "MM1510"

	BatchWork Code = "MM1521"
	BatchFile Code = "MM1522"
	BatchStep Code = "MM1523"

	TorchLacks Code = "MM1540"
	BadShards  Code = "MM1541"

	SourceFile    Code = "MM1560"
	SourceDigest  Code = "MM1561"
	SourceLicense Code = "MM1562"
	SourceColumn  Code = "MM1563"
	FilterFault   Code = "MM1564"
	RowFault      Code = "MM1565"
	ParquetFault  Code = "MM1566"
	RowLimit      Code = "MM1567"
	RowText       Code = "MM1568"
	DataTaken     Code = "MM1569"
	DataEmpty     Code = "MM1570"
	DataChanged   Code = "MM1571"
	BadCroissant  Code = "MM1572"
	CroissantPart Code = "MM1573"
	SourceTwice   Code = "MM1574"
	NearMany      Code = "MM1575"
	SplitShares   Code = "MM1576"

	BucketAddress Code = "MM1590"
	BucketKey     Code = "MM1591"
	BucketDigest  Code = "MM1592"
	BucketChanged Code = "MM1593"
	BucketExists  Code = "MM1594"
	BucketDenied  Code = "MM1595"
	BucketAnswer  Code = "MM1596"
	BucketPointer Code = "MM1597"
	BucketMissing Code = "MM1598"
)

// Summary returns the summary of the code, or the code itself if it is unknown.
func (c Code) Summary() string {
	if e, ok := c.entry(); ok {
		return e.Summary
	}
	return string(c)
}

// Fix returns what to do about the code, or "" if it is unknown.
func (c Code) Fix() string {
	e, _ := c.entry()
	return e.Fix
}

func (c Code) entry() (Entry, bool) {
	i, ok := slices.BinarySearchFunc(table, c, func(e Entry, c Code) int { return strings.Compare(string(e.Code), string(c)) })
	if !ok {
		return Entry{}, false
	}
	return table[i], true
}
