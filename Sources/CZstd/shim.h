#ifndef SYNCAGENT_CZSTD_SHIM_H
#define SYNCAGENT_CZSTD_SHIM_H

/* ZDICT_trainFromBuffer_fastCover and ZSTD_c_forceAttachDict: exported by the library, declared only so. */
#define ZDICT_STATIC_LINKING_ONLY
#define ZSTD_STATIC_LINKING_ONLY

#include <zdict.h>
#include <zstd.h>
#include <zstd_errors.h>

#if ZSTD_VERSION_NUMBER < 10400
#error "syncagent needs libzstd 1.4.0 or later (the stable advanced API)."
#endif

#endif
