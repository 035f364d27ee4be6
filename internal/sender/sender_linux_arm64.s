#include "textflag.h"

DATA ·note(SB)/8, $handler<>(SB)
GLOBL ·note(SB), NOPTR, $8

// The kernel calls it with the signal in R0, the siginfo in R1 and the context in
// R2, and the runtime's handler is to find them there.
TEXT handler<>(SB), NOSPLIT|NOFRAME|TOPFRAME, $0
	MOVWU R0, R3
	MOVD $·noted(SB), R4
	ADD R3<<3, R4, R4
	MOVW 8(R1), R5 // si_code: above 0 it is the kernel's
	CMPW $0, R5
	BLE process
	MOVD $1, R6
	MOVW R6, 0(R4)
	B done
process:
	MOVWU 16(R1), R6 // si_pid, 0 from outside this namespace
	ORR $0x80000000, R6, R6
	MOVW R6, 4(R4)
done:
	MOVD ·next(SB), R8
	CBZ R8, caught
	JMP (R8)
caught:
	RET
