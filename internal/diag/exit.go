package diag

import "strings"

// The exit codes of diagnostics.
const (
	ExitFailure     = 1 // a device failed
	ExitUsage       = 2 // the command line is ambiguous
	ExitInvalid     = 3 // a file has faults
	ExitRefused     = 4 // verification refused an artifact
	ExitMissed      = 5 // a golden output, a budget or a limit was missed
	ExitUnavailable = 6 // a backend, an exporter or a device is not available
)

// Exit returns the exit code for a list: that of its most severe error.
func (l List) Exit() int {
	exit := ExitInvalid
	for _, d := range l {
		if d.Severity != Error {
			continue
		}
		switch code := d.Code.Exit(); code {
		case ExitRefused:
			return code
		case ExitInvalid:
		default:
			exit = code
		}
	}
	return exit
}

// Exit returns the exit code for the code.
func (c Code) Exit() int {
	switch c {
	case HostileInput, UnknownABI, DeviceUntrusted, PushDiffers, EvidenceChanged, EvidenceUnsigned, EvidenceStranger, EvidenceForged, EvalAbsent, EvalOther, BucketDigest, BucketAnswer, BucketPointer:
		return ExitRefused
	case NoBackend, NoExporter:
		return ExitUnavailable
	case GoldenMissed, BudgetMissed, DriftMissed, QNNDrift, GateWorse, GateOpen, BudgetOver, BudgetUnproven, BudgetAbsent, EvalMissed, CardDiffers:
		return ExitMissed
	case DeviceMany, DeviceFolder:
		return ExitUsage
	case ForeignArtifact, DeviceRefuses, RunFailed, RunCrashed, RunnerBabbled, BucketChanged, BucketExists, BucketDenied, BucketMissing:
		return ExitFailure
	case ContextRefused:
		return ExitInvalid
	}
	switch {
	case strings.HasPrefix(string(c), "MM06"):
		return ExitRefused
	case !strings.HasPrefix(string(c), "MM12"):
		return ExitInvalid
	case c == RunDeadline || c >= OutputCount:
		return ExitMissed
	}
	return ExitUnavailable
}
