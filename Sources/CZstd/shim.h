#ifndef SYNCAGENT_CZSTD_SHIM_H
#define SYNCAGENT_CZSTD_SHIM_H

#include <zstd.h>
#include <zstd_errors.h>

#if ZSTD_VERSION_NUMBER < 10400
#error "syncagent needs libzstd 1.4.0 or later (the stable advanced API)."
#endif

#endif
