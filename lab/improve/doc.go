// Package improve lets a language model teach itself on a task whose answers
// can be verified: questions of arithmetic that a program, the call of a
// calculator, answers (program of thought).
//
// Round 0 adapts the core to a few questions with programs. Each later round
// starts from the core again, or from the last round:
//
//   - STaR (Zelikman et al., arXiv 2203.14465) samples programs for questions
//     whose answers alone are known, executes them in the sandbox, keeps the
//     right ones, tries the rest once more with the answer as a hint, and adapts
//     the core to all that it kept.
//   - SPIN (Chen et al., arXiv 2401.01335) prefers the known programs to the
//     model's own of the last round (train/preference, DPO). It learns from the
//     examples of round 0 alone.
//
// Other methods adapt the core once, and compare it with the core itself, which is
// round 0: to programs, to answers after their steps or without them, and to the
// calls of a teacher (tool distillation).
//
// Held-out questions have numbers and wordings that no other question has. A part
// of them chooses the best round and ends the run when rounds do not help; the
// rest compares that round with round 0. Everything follows from the seed; a round
// is complete when its result.json exists, and a killed run continues with the next
// one.
package improve
