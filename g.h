// Made by jfuse.
#ifndef G_H_
#define G_H_

extern const unsigned char g[];
extern const unsigned int g_len;  // 8160

// Memory besides the model: the smallest array, aligned to 16 bytes, in which tflite-micro's interpreter
// runs it on a 64-bit machine. What AllocateTensors needs for a moment is part of it. The margin is the
// rounding up to 16 bytes, and no more.
// With pointers of 32 bits about 4752 bytes do: an estimate, to be tried.
constexpr int g_arena_bytes = 5584;

#endif  // G_H_
