#include "textflag.h"

DATA ·note(SB)/8, $handler<>(SB)
GLOBL ·note(SB), NOPTR, $8

// The kernel calls it with the signal in DI, the siginfo in SI and the context in
// DX, and the runtime's handler is to find them there.
TEXT handler<>(SB), NOSPLIT|NOFRAME|TOPFRAME, $0
	MOVL DI, CX
	LEAQ ·noted(SB), R10
	LEAQ (R10)(CX*8), R10
	CMPL 8(SI), $0 // si_code: above 0 it is the kernel's
	JLE process
	MOVL $1, 0(R10)
	JMP done
process:
	MOVL 16(SI), AX // si_pid, 0 from outside this namespace
	ORL $0x80000000, AX
	MOVL AX, 4(R10)
done:
	MOVQ ·next(SB), AX
	TESTQ AX, AX
	JEQ caught
	JMP AX
caught:
	RET
